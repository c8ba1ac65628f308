// Layer × expert heatmap on a canvas. Colours are safe for colour-blind eyes: blue below and orange
// above the mean on a log scale, or cividis from none to most.

const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];
const OCTAVES = 2; // relative scale: 1/4 … 4 times the mean
const MARGIN = { left: 44, bottom: 30, top: 4, right: 6 };
const MIN_CELL = 2;
const NO_TRAFFIC = "no traffic";

// The binary form of `history.load_matrix.to_bytes`.
export function decode(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const width = view.getUint8(5);
  const layers = view.getUint32(8, true);
  const experts = view.getUint32(12, true);
  const counts = new Float64Array(layers * experts);
  for (let i = 0; i < counts.length; i += 1) {
    counts[i] = width === 4 ? view.getUint32(40 + 4 * i, true) : view.getFloat64(40 + 8 * i, true);
  }
  return { layers, experts, counts, start: view.getFloat64(16, true), end: view.getFloat64(24, true), frames: Number(view.getBigUint64(32, true)) };
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function mix(a, b, t) {
  return [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * t));
}

// Colour of a value in [0, 1] of the scale.
function colours(scale) {
  if (scale !== "relative") {
    return (t) => {
      const at = Math.min(Math.max(t, 0), 1) * (CIVIDIS.length - 1);
      const i = Math.min(Math.floor(at), CIVIDIS.length - 2);
      return mix(CIVIDIS[i], CIVIDIS[i + 1], at - i);
    };
  }
  const [low, mid, high] = ["--heat-low", "--heat-mid", "--heat-high"].map((name) => css(name).split(",").map(Number));
  return (t) => (t < 0.5 ? mix(low, mid, Math.max(t, 0) * 2) : mix(mid, high, Math.min(t, 1) * 2 - 1));
}

function hatching(context) {
  const tile = new OffscreenCanvas(8, 8);
  const pen = tile.getContext("2d");
  pen.strokeStyle = css("--faint");
  pen.lineWidth = 1;
  for (const at of [-4, 0, 4]) { pen.moveTo(at, 8); pen.lineTo(at + 8, 0); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

export class Heatmap {
  constructor({ canvas, legend, unit, readout, hottest }) {
    Object.assign(this, { canvas, legend, unit, readout, hottest, scale: "relative", matrix: null, cursor: null });
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.point(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => { if (this.matrix && !this.cursor) this.move(0, 0); });
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(matrix) {
    this.matrix = matrix;
    const { layers, experts, counts } = matrix;
    this.totals = new Float64Array(layers);
    this.largest = new Float64Array(layers);
    for (let i = 0; i < counts.length; i += 1) {
      const layer = Math.floor(i / experts);
      this.totals[layer] += counts[i];
      this.largest[layer] = Math.max(this.largest[layer], counts[i]);
    }
    if (this.cursor && (this.cursor.layer >= layers || this.cursor.expert >= experts)) this.cursor = null;
    this.draw();
    this.rank();
    if (this.cursor) this.tell();
    else {
      const told = this.total() ? `${this.total().toLocaleString("en")} assignments` : "no traffic";
      this.readout.textContent = `${this.span()}: ${told}, ${layers} layers × ${experts} experts`;
    }
  }

  choose(scale) {
    this.scale = scale;
    this.draw();
  }

  span() {
    const seconds = Math.round(this.matrix.end - this.matrix.start);
    const end = new Date(this.matrix.end * 1000).toISOString().slice(0, 19).replace("T", " ");
    return `${seconds} s up to ${end} UTC`;
  }

  total() {
    return this.totals.reduce((sum, value) => sum + value, 0);
  }

  share(layer, expert) {
    const total = this.totals[layer];
    return total ? this.matrix.counts[layer * this.matrix.experts + expert] / total : 0;
  }

  // Where a cell stands on the scale, in [0, 1].
  level(layer, expert, top) {
    const share = this.share(layer, expert);
    if (this.scale === "relative") {
      const relative = share * this.matrix.experts;
      return relative <= 0 ? 0 : (Math.log2(relative) + OCTAVES) / (2 * OCTAVES);
    }
    if (this.scale === "row") return this.largest[layer] ? this.matrix.counts[layer * this.matrix.experts + expert] / this.largest[layer] : 0;
    return top ? share / top : 0;
  }

  topShare() {
    let top = 0;
    for (let layer = 0; layer < this.matrix.layers; layer += 1) {
      if (this.totals[layer]) top = Math.max(top, this.largest[layer] / this.totals[layer]);
    }
    return top;
  }

  measure() {
    const { layers, experts } = this.matrix;
    const room = this.canvas.parentElement.clientWidth - MARGIN.left - MARGIN.right;
    const cell = Math.max(MIN_CELL, room / experts);
    const row = layers <= 8 ? 26 : Math.max(7, Math.min(22, Math.floor(520 / layers)));
    return { cell, row, width: cell * experts, height: row * layers };
  }

  draw() {
    if (!this.matrix) return;
    const { layers, experts } = this.matrix;
    const size = this.measure();
    const ratio = window.devicePixelRatio || 1;
    const width = Math.floor(size.width + MARGIN.left + MARGIN.right);
    const height = size.height + MARGIN.top + MARGIN.bottom;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image(), MARGIN.left, MARGIN.top, size.width, size.height);
    this.quiet(context, size);
    this.axes(context, size, layers, experts);
    if (this.cursor) {
      context.strokeStyle = css("--ink");
      context.lineWidth = 2;
      context.strokeRect(MARGIN.left + this.cursor.expert * size.cell - 1, MARGIN.top + this.cursor.layer * size.row - 1, Math.max(size.cell, 3) + 2, size.row + 2);
    }
    this.drawLegend();
  }

  // One pixel a cell; the canvas enlarges it without smoothing.
  image() {
    const { layers, experts } = this.matrix;
    const paint = colours(this.scale);
    const top = this.topShare();
    const pixels = new ImageData(experts, layers);
    for (let layer = 0; layer < layers; layer += 1) {
      for (let expert = 0; expert < experts; expert += 1) {
        pixels.data.set([...paint(this.level(layer, expert, top)), this.totals[layer] ? 255 : 0], 4 * (layer * experts + expert));
      }
    }
    const small = new OffscreenCanvas(experts, layers);
    small.getContext("2d").putImageData(pixels, 0, 0);
    return small;
  }

  // Layers without traffic are hatched: a colour would read as "below the mean".
  quiet(context, size) {
    const idle = [...this.totals.keys()].filter((layer) => !this.totals[layer]);
    context.fillStyle = hatching(context);
    for (const layer of idle) context.fillRect(MARGIN.left, MARGIN.top + layer * size.row, size.width, size.row);
    if (idle.length < this.matrix.layers) return;
    const middle = { x: MARGIN.left + Math.min(size.width, this.canvas.parentElement.clientWidth - MARGIN.left) / 2, y: MARGIN.top + size.height / 2 };
    context.font = "600 14px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    const half = context.measureText(NO_TRAFFIC).width / 2 + 8;
    context.fillStyle = css("--panel");
    context.fillRect(middle.x - half, middle.y - 11, 2 * half, 22);
    context.fillStyle = css("--ink");
    context.fillText(NO_TRAFFIC, middle.x, middle.y);
  }

  axes(context, size, layers, experts) {
    context.fillStyle = css("--faint");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const everyLayer = Math.max(1, Math.ceil(13 / size.row));
    for (let layer = 0; layer < layers; layer += everyLayer) {
      context.fillText(layers <= 8 ? `layer ${layer}` : String(layer), MARGIN.left - 4, MARGIN.top + (layer + 0.5) * size.row);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const steps = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    const everyExpert = steps.find((step) => step * size.cell >= 34) || 512;
    for (let expert = 0; expert < experts; expert += everyExpert) {
      const x = MARGIN.left + (expert + 0.5) * size.cell;
      context.fillRect(x - 0.5, MARGIN.top + size.height, 1, 3);
      context.fillText(String(expert), x, MARGIN.top + size.height + 4);
    }
    context.textAlign = "left";
    context.fillText("expert", MARGIN.left, MARGIN.top + size.height + 17);
  }

  // The legend: the scale with its unit.
  drawLegend() {
    const canvas = this.legend;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 320;
    canvas.width = width * ratio;
    canvas.height = 34 * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const paint = colours(this.scale);
    const pad = 16;
    for (let x = 0; x < width - 2 * pad; x += 1) {
      context.fillStyle = `rgb(${paint(x / (width - 2 * pad)).join(",")})`;
      context.fillRect(pad + x, 2, 1, 13);
    }
    const top = this.topShare();
    const ticks = {
      relative: ["≤ ¼", "½", "1", "2", "≥ 4"],
      share: [0, 0.25, 0.5, 0.75, 1].map((t) => `${(100 * t * top).toPrecision(2)} %`),
      row: ["0", "25 %", "50 %", "75 %", "100 %"],
    }[this.scale];
    this.unit.textContent = { relative: "share ÷ mean of the layer", share: "share of the layer's assignments", row: "of the layer's busiest expert" }[this.scale];
    context.fillStyle = css("--faint");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    ticks.forEach((tick, i) => context.fillText(tick, pad + (i * (width - 2 * pad)) / 4, 19));
  }

  point(event) {
    if (!this.matrix) return;
    const box = this.canvas.getBoundingClientRect();
    const size = this.measure();
    const expert = Math.floor((event.clientX - box.left - MARGIN.left) / size.cell);
    const layer = Math.floor((event.clientY - box.top - MARGIN.top) / size.row);
    if (layer >= 0 && layer < this.matrix.layers && expert >= 0 && expert < this.matrix.experts) this.move(layer, expert);
  }

  move(layer, expert) {
    const { layers, experts } = this.matrix;
    this.cursor = { layer: Math.min(Math.max(layer, 0), layers - 1), expert: Math.min(Math.max(expert, 0), experts - 1) };
    this.draw();
    this.tell();
  }

  key(event) {
    if (!this.matrix) return;
    const at = this.cursor || { layer: 0, expert: 0 };
    const go = {
      ArrowLeft: [at.layer, at.expert - 1], ArrowRight: [at.layer, at.expert + 1], ArrowUp: [at.layer - 1, at.expert], ArrowDown: [at.layer + 1, at.expert],
      PageUp: [at.layer - 8, at.expert], PageDown: [at.layer + 8, at.expert], Home: [at.layer, 0], End: [at.layer, this.matrix.experts - 1],
    }[event.key];
    if (!go) return;
    event.preventDefault();
    this.move(...go);
    const size = this.measure();
    const x = MARGIN.left + this.cursor.expert * size.cell;
    const box = this.canvas.parentElement;
    if (x < box.scrollLeft + MARGIN.left || x > box.scrollLeft + box.clientWidth - 10) box.scrollLeft = x - box.clientWidth / 2;
  }

  tell() {
    const { layer, expert } = this.cursor;
    const share = this.share(layer, expert);
    const count = this.matrix.counts[layer * this.matrix.experts + expert];
    if (!this.totals[layer]) { this.readout.textContent = `layer ${layer} · expert ${expert} · ${NO_TRAFFIC} in ${this.span()}`; return; }
    this.readout.textContent = `layer ${layer} · expert ${expert} · ${(100 * share).toFixed(3)} % of the layer · ${(share * this.matrix.experts).toFixed(2)} × mean · ${count.toLocaleString("en")} assignments in ${this.span()}`;
  }

  rank() {
    const { layers, experts, counts } = this.matrix;
    const cells = [];
    for (let i = 0; i < layers * experts; i += 1) cells.push([this.share(Math.floor(i / experts), i % experts) * experts, i]);
    cells.sort((a, b) => b[0] - a[0]);
    const rows = cells.filter(([relative]) => relative > 0).slice(0, 10).map(([relative, i]) => {
      const row = document.createElement("tr");
      const layer = Math.floor(i / experts);
      const texts = [String(layer), String(i % experts), `${((100 * relative) / experts).toFixed(3)} %`, relative.toFixed(2), counts[i].toLocaleString("en")];
      for (const text of texts) row.append(Object.assign(document.createElement("td"), { textContent: text }));
      return row;
    });
    if (!rows.length) this.hottest.innerHTML = `<tr><td colspan="5">${NO_TRAFFIC}</td></tr>`;
    else this.hottest.replaceChildren(...rows);
  }
}
