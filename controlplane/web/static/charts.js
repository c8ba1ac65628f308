// Time charts of an engine with uPlot: units on every axis, the objective dashed, changes dotted.
// An arrow up: the truth lies above the last bound of what measures it, the line is at that bound.

import { ChartKeys } from "./chart_keys.js";

const seconds = (v) => (v == null ? "–" : v < 1e-3 ? `${+(v * 1e6).toPrecision(3)} µs` : v < 1 ? `${+(v * 1e3).toPrecision(3)} ms` : `${+v.toPrecision(3)} s`);
const percent = (v) => (v == null ? "–" : `${+(100 * v).toPrecision(3)} %`);
const utc = (at) => new Date(at * 1000).toISOString(); // ISO 8601, 24 hours, whatever the locale
const day = (at) => utc(at).slice(0, 10);
const clock = (at, span) => utc(at).slice(11, span > 900 ? 16 : 19);
// The date stands under the first time, and under the first of another day.
const times = (ticks, span) => ticks.map((at, i) => (i && day(at) === day(ticks[i - 1]) ? clock(at, span) : `${clock(at, span)}\n${day(at)}`));
const plain = (v) => (v == null ? "–" : String(+v.toPrecision(4)));

const SHOWN = {
  ttft: { unit: "TTFT", text: seconds, line: "ttft", of: [["p50", "ttft_p50"], ["p99", "ttft_p99"]] },
  tpot: { unit: "TPOT", text: seconds, line: "tpot", of: [["p50", "tpot_p50"], ["p99", "tpot_p99"]] },
  overflow: { unit: "% of assignments", text: percent, line: "overflow", of: [["all layers", "overflow"], ["worst layer", "overflow_worst_layer"]] },
  load_cv: { unit: "std ÷ mean of experts", says: " (std ÷ mean)", text: plain, line: "load_cv", of: [["mean layer", "load_cv_mean"], ["worst layer", "load_cv_worst_layer"]] },
  step: { unit: "step time", text: seconds, of: [["p50", "step_p50"], ["p99", "step_p99"]] },
  a2a: { unit: "all-to-all, p99", text: seconds, of: [["dispatch", "dispatch_p99"], ["combine", "combine_p99"], ["dispatch wait", "dispatch_wait_p99"]] },
  rate: { unit: "tokens/s", text: plain, of: [["tokens/s", "tokens_per_second"]] },
  queue: { unit: "time in queue, p99", text: seconds, of: [["p99", "queue_p99"]] },
};

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function arrow(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x - size, y);
  ctx.lineTo(x, y - 1.6 * size);
  ctx.lineTo(x + size, y);
  ctx.fill();
}

// The dashed line in words; nothing where there is none.
function lineOf(chart, data) {
  const limit = chart.line && data.lines[chart.line];
  return limit ? `${chart.line === "load_cv" ? "threshold" : "objective"} ${chart.text(limit)}` : "";
}

// A point in words: its time, and the values of the series that are shown.
function pointOf(chart, data, plot, index) {
  const at = data.t[index];
  const values = chart.of.map(([label, name], k) => {
    const value = data.series[name][index];
    const above = (data.more[name] || []).includes(index) ? "more than " : "";
    return plot.series[k + 1].show && `${label} ${value == null ? "not measured" : `${above}${chart.text(value)}${chart.says || ""}`}`;
  });
  return `${day(at)} ${clock(at, 0)} UTC: ${values.filter(Boolean).join(", ") || "every series is hidden"}`;
}

function overlay(chart, data, more) {
  return (plot) => {
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = ratio;
    ctx.strokeStyle = css("--faint");
    if (plot.data.slice(1).every((column) => column.every((value) => value == null))) {
      ctx.fillStyle = css("--faint");
      ctx.font = `${13 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      ctx.fillText("nothing measured in this time", bbox.left + bbox.width / 2, bbox.top + bbox.height / 2);
    }
    more().forEach((rows, k) => {
      ctx.fillStyle = css(`--series-${k + 1}`);
      for (const i of rows) arrow(ctx, plot.valToPos(plot.data[0][i], "x", true), plot.valToPos(plot.data[k + 1][i], "y", true), 3 * ratio);
    });
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    for (const mark of data().marks) {
      const x = plot.valToPos(mark.at, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    const limit = chart.line && data().lines[chart.line];
    if (limit) {
      const y = plot.valToPos(limit, "y", true);
      ctx.strokeStyle = css("--slo");
      ctx.fillStyle = css("--slo");
      ctx.lineWidth = 1.5 * ratio;
      ctx.setLineDash([7 * ratio, 5 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "right";
      ctx.textBaseline = "bottom";
      ctx.fillText(lineOf(chart, data()), bbox.left + bbox.width - 4 * ratio, y - 2 * ratio);
    }
    ctx.restore();
  };
}

function options(chart, width, data, more) {
  const axis = { stroke: css("--faint"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 }, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", labelSize: 16 };
  const colour = ["--series-1", "--series-2", "--series-3"].map(css);
  const dash = [[], [], [3, 3]];
  return {
    width, height: 210, tzDate: (ts) => window.uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
    cursor: { sync: { key: "engine" }, points: { size: 6 } },
    legend: { live: true },
    scales: {
      x: { time: true, range: () => [data().start, data().end] },
      y: { range: (_plot, _low, high) => [0, 1.12 * Math.max(high || 0, (chart.line && data().lines[chart.line]) || 0) || 1] },
    },
    axes: [{ ...axis, size: 46, label: "time (UTC, 24 h)", values: (_plot, ticks) => times(ticks, data().end - data().start) }, { ...axis, size: 62, label: chart.unit, values: (_plot, ticks) => ticks.map(chart.text) }],
    series: [
      { label: "at", value: (_plot, v) => (v == null ? "–" : `${day(v)} ${clock(v, 0)} UTC`) },
      ...chart.of.map(([label], i) => ({ label, stroke: colour[i], width: 1.6, dash: dash[i], points: { show: false }, spanGaps: false, value: (_plot, v, _series, row) => `${more()[i].has(row) ? "> " : ""}${chart.text(v)}` })),
    ],
    hooks: { draw: [overlay(chart, data, more)] },
  };
}

export class Charts {
  constructor(root, url) {
    this.figures = [...root.querySelectorAll("[data-chart]")];
    this.url = url;
    this.data = null;
    this.plots = new Map();
    this.more = new Map();
    this.busy = false;
    this.keys = this.figures.map((figure) => this.keysOf(figure));
    new ResizeObserver(() => this.fit()).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  keysOf(figure) {
    const chart = SHOWN[figure.dataset.chart];
    const plot = () => this.plots.get(figure);
    return new ChartKeys(figure, {
      plot, data: () => this.data, limit: () => lineOf(chart, this.data),
      values: (index) => pointOf(chart, this.data, plot(), index), names: chart.of.map(([label]) => label),
    });
  }

  async refresh() {
    if (this.busy) return;
    this.busy = true;
    try {
      const answer = await fetch(this.url, { headers: { Accept: "application/json" } });
      if (answer.ok) {
        const before = this.data;
        this.data = await answer.json();
        this.draw(before);
      }
    } finally {
      this.busy = false;
    }
  }

  draw(before = this.data) {
    for (const figure of this.figures) {
      const chart = SHOWN[figure.dataset.chart];
      const [columns, more] = this.columns(chart);
      this.more.set(figure, more);
      const plot = this.plots.get(figure);
      if (plot) this.renew(plot, columns, before);
      else {
        const box = figure.querySelector(".plot");
        this.plots.set(figure, new window.uPlot(options(chart, box.clientWidth, () => this.data, () => this.more.get(figure)), columns, box));
      }
    }
    for (const keys of this.keys) keys.place();
  }

  // A part that was zoomed into stays while data come in.
  renew(plot, columns, before) {
    const { min, max } = plot.scales.x;
    const zoomed = min > before.start || max < before.end;
    plot.setData(columns, !zoomed);
    if (zoomed) plot.setScale("x", { min, max });
  }

  // A missing point breaks the line: gaps are shown as gaps. Gives also, for each line, the rows
  // whose value is only a lower bound.
  columns(chart) {
    const { t, step, series, more } = this.data;
    const columns = [[], ...chart.of.map(() => [])];
    const above = chart.of.map(([, name]) => new Set(more[name] || []));
    const rows = chart.of.map(() => new Set());
    t.forEach((at, i) => {
      if (i && at - t[i - 1] > 1.5 * step) {
        columns[0].push((at + t[i - 1]) / 2);
        for (const column of columns.slice(1)) column.push(null);
      }
      columns[0].push(at);
      chart.of.forEach(([, name], k) => {
        if (above[k].has(i)) rows[k].add(columns[k + 1].length);
        columns[k + 1].push(series[name][i]);
      });
    });
    return [columns, rows];
  }

  fit() {
    for (const [figure, plot] of this.plots) {
      const width = figure.querySelector(".plot").clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: 210 });
    }
  }

  rebuild() {
    for (const plot of this.plots.values()) plot.destroy();
    this.plots.clear();
    if (this.data) this.draw();
  }
}
