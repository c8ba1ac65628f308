// Reading a chart by keyboard: a cursor over its points, told in words; zoom and series by keys.

const PAGE = 10; // points of Page Up and Page Down
const ZOOM = 2;

export class ChartKeys {
  // `plot`, `data`: what is drawn now, or nothing; `values(index)`: a point's values in words;
  // `limit()`: the dashed line in words; `names`: of the series.
  constructor(figure, { plot, data, values, limit, names }) {
    Object.assign(this, { plot, data, values, limit, names, at: null });
    this.box = figure.querySelector(".plot");
    this.readout = figure.querySelector("output");
    this.title = figure.querySelector("figcaption").textContent;
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.enter());
    this.box.addEventListener("blur", () => this.leave());
  }

  // Indices of the points that are shown: all, or those of the zoomed part.
  shown() {
    const { min, max } = this.plot().scales.x;
    return [...this.data().t.keys()].filter((i) => this.data().t[i] >= min && this.data().t[i] <= max);
  }

  // Where the cursor stands among the shown points: at its time, or the nearest one to it.
  index(points) {
    const { t } = this.data();
    const far = (i) => Math.abs(t[points[i]] - this.at);
    return this.at == null ? points.length - 1 : points.reduce((best, _, i) => (far(i) < far(best) ? i : best), 0);
  }

  enter() {
    // A mouse that drags to zoom focuses the chart too; it has a cursor of its own.
    if (this.plot() && this.box.matches(":focus-visible")) this.go(0, this.limit());
  }

  leave() {
    this.at = null;
    this.readout.textContent = "";
    if (this.plot()) this.plot().setCursor({ left: -10, top: -10 }, true, true);
  }

  key(event) {
    if (!this.plot() || event.ctrlKey || event.altKey || event.metaKey) return;
    const act = {
      ArrowLeft: () => this.go(-1), ArrowRight: () => this.go(1), PageUp: () => this.go(-PAGE), PageDown: () => this.go(PAGE),
      Home: () => this.go(-Infinity), End: () => this.go(Infinity), Escape: () => this.box.blur(),
      "+": () => this.zoom(1 / ZOOM), "-": () => this.zoom(ZOOM), 0: () => this.zoom(Infinity),
      ...Object.fromEntries(this.names.map((_, i) => [i + 1, () => this.toggle(i)])),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  go(by, more = "") {
    const points = this.shown();
    if (!points.length) { this.tell("nothing measured in this time"); return; }
    const to = points[Math.min(Math.max(this.index(points) + by, 0), points.length - 1)];
    this.at = this.data().t[to];
    this.place();
    this.tell([this.values(to), more].filter(Boolean).join("; "));
  }

  // The cursor stands at its time, whatever was drawn anew.
  place() {
    const plot = this.plot();
    if (this.at == null || !plot) return;
    plot.setCursor({ left: plot.valToPos(this.at, "x"), top: plot.over.clientHeight / 2 }, true, true);
  }

  zoom(by) {
    const { start, end, t } = this.data();
    const { min, max } = this.plot().scales.x;
    const span = Math.min((max - min) * by, end - start);
    const middle = this.at ?? t[t.length - 1] ?? end;
    const from = Math.min(Math.max(middle - span / 2, start), end - span);
    if (span < 2 * this.data().step) return;
    this.plot().setScale("x", { min: from, max: from + span });
    this.place();
    this.tell(`${this.shown().length} points are shown`);
  }

  toggle(index) {
    const series = this.plot().series[index + 1];
    this.plot().setSeries(index + 1, { show: !series.show }, true);
    this.tell(`${this.names[index]} is ${series.show ? "shown" : "hidden"}`);
  }

  tell(words) {
    this.readout.textContent = `${this.title}: ${words}`;
  }
}
