// Wires the Engine page: heatmap and charts follow the stream; the scale stays in the URL.

import { Charts } from "./charts.js";
import { Heatmap, decode } from "./heatmap.js";

const root = document.getElementById("engine");
const byId = (id) => document.getElementById(id);
const charts = new Charts(byId("charts"), root.dataset.charts);
const REFRESH_MS = 5000;
let refreshed = 0;

// An observe-only engine has no experts to show.
if (byId("heatmap")) {
  const heatmap = new Heatmap({ canvas: byId("heatmap"), legend: byId("legend"), unit: byId("legend-unit"), readout: byId("heat-readout"), hottest: byId("hottest") });
  const scale = byId("scale");
  heatmap.choose(scale.value);
  scale.addEventListener("change", (event) => {
    event.preventDefault();
    event.stopPropagation();
    heatmap.choose(scale.value);
    const url = new URL(location.href);
    url.searchParams.set("scale", scale.value);
    history.replaceState(null, "", url);
  });
  root.addEventListener("live-load", (event) => heatmap.show(decode(event.detail)));
}

root.addEventListener("live-tick", () => {
  const now = performance.now();
  if (now - refreshed >= REFRESH_MS) { refreshed = now; charts.refresh(); }
});
refreshed = performance.now();
charts.refresh();
