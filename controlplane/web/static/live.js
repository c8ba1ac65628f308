// Pages renew themselves: server-sent events swap the marked parts, and times count on.
// A hidden tab lets its stream go: browsers allow only six connections to one host.

const HIDDEN_GRACE_MS = 20000;

function ago(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s} s ago`;
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  if (s < 129600) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86400)} d ago`;
}

function countTimes() {
  const now = Date.now() / 1000;
  for (const el of document.querySelectorAll("time[data-ago]")) {
    const text = ago(now - Number(el.dataset.ago));
    if (el.textContent !== text) el.textContent = text;
  }
}

// What somebody is confirming does not change under their hand.
const held = new WeakMap();
document.addEventListener("toggle", (event) => {
  const target = event.target.closest("[data-live-html]");
  const html = target && held.get(target);
  if (html && event.newState === "closed") { held.delete(target); swap(target, html); }
}, true);

// Replace the inside of an element, keeping focus, open details and half-written fields by id.
function swap(target, html) {
  if ([...target.querySelectorAll("[popover]")].some((el) => el.matches(":popover-open"))) { held.set(target, html); return; }
  const focus = document.activeElement && target.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...target.querySelectorAll("details[open][id]")].map((el) => el.id);
  const fields = [...target.querySelectorAll("input[id], textarea[id]")]
    .filter((el) => el.type !== "hidden").map((el) => [el.id, el.value, el.checked]);
  target.innerHTML = html;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  for (const [id, value, checked] of fields) {
    const el = document.getElementById(id);
    if (el) { el.value = value; el.checked = checked; }
  }
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  window.htmx?.process(target);
  countTimes();
}

function live(root) {
  const parts = [...root.querySelectorAll("[data-live-html]")];
  const state = document.querySelector("[data-live-state]");
  let source = null;
  let hiding = 0;

  function say(text, tone) {
    if (!state) return;
    state.textContent = text;
    state.className = `live ${tone}`;
  }
  function open() {
    if (source) return;
    source = new EventSource(root.dataset.live);
    source.onopen = () => say("live", "on");
    source.onerror = () => {
      say("reconnecting…", "off");
      if (source && source.readyState === EventSource.CLOSED) { close("stream ended; trying again…"); setTimeout(open, 5000); }
    };
    for (const part of parts) source.addEventListener(part.dataset.liveHtml || "html", (event) => swap(part, event.data));
    source.addEventListener("gone", () => { close("gone"); });
    for (const name of ["load", "tick"]) {
      source.addEventListener(name, (event) => root.dispatchEvent(new CustomEvent(`live-${name}`, { detail: event.data })));
    }
  }
  function close(text) {
    source?.close();
    source = null;
    say(text, "off");
  }
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => close("paused while hidden"), HIDDEN_GRACE_MS);
    else open();
  });
  window.addEventListener("pagehide", () => close("paused"));
  window.addEventListener("pageshow", open);
  open();
}

// A select of a bar of choices acts at once; the button stays for those without scripts.
for (const form of document.querySelectorAll("form.bar")) {
  form.addEventListener("change", (event) => { if (event.target.tagName === "SELECT" && !event.defaultPrevented) form.requestSubmit(); });
}
for (const root of document.querySelectorAll("[data-live]")) live(root);
setInterval(countTimes, 1000);
countTimes();
