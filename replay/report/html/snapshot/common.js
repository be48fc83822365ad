// What the drawings of a snapshot's page share. Names of strangers are set only as text, never as markup.
const Replay = (() => {
  "use strict";

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  function element(kind, name, parent, text) {
    const made = document.createElement(kind);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function button(text, label, parent, act) {
    const made = element("button", "", parent, text);
    made.type = "button";
    if (label !== text) { made.title = label; made.setAttribute("aria-label", label); }
    made.addEventListener("click", act);
    return made;
  }

  // Several buttons of which one is pressed. Choices: [value, text].
  function switcher(choices, label, parent, act) {
    const group = element("span", "switch", parent);
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", label);
    const buttons = choices.map(([value, text]) => [value, button(text, text, group, () => { press(value); act(value); })]);
    function press(value) {
      for (const [other, made] of buttons) made.setAttribute("aria-pressed", String(other === value));
    }
    return press;
  }

  // What is looked at is in the URL, so that it can be passed on: #t=0,500&q=gemm. A page of several windows has a
  // number behind each name.
  const state = new Map();
  const readState = () => {
    state.clear();
    const text = location.hash.slice(1);
    if (text.includes("=")) for (const [name, value] of new URLSearchParams(text)) state.set(name, value);
  };
  readState();
  let waiting = 0;
  function writeState() {
    waiting = 0;
    const text = "#" + new URLSearchParams([...state]).toString().replaceAll("%2C", ",");
    if (state.size || location.hash.includes("=")) history.replaceState(null, "", state.size ? text : "#");
  }
  function stateOf(window) {
    const named = (name) => (window ? name + window : name);
    return {
      get: (name) => state.get(named(name)),
      set(name, value) {
        if (value === undefined || value === "" || value === null) state.delete(named(name));
        else state.set(named(name), String(value));
        if (!waiting) waiting = setTimeout(writeState, 300);
      },
    };
  }

  // A canvas as wide as its holder, drawn again when that changes, or the colours do.
  function surface(holder, height, label, paint) {
    const canvas = element("canvas", "", holder);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    const draw = canvas.getContext("2d", { alpha: false });
    let asked = 0, now = height;
    const made = {
      canvas, draw, width: 0,
      get height() { return now; },
      resize(value) { now = value; fit(); },
      ask() { if (!asked) asked = requestAnimationFrame(() => { asked = 0; made.paint(); }); },
      paint() {
        if (!made.width) return;
        draw.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        draw.font = "12px system-ui, sans-serif";
        draw.textBaseline = "middle";
        paint(draw, made.width, now);
      },
    };
    function fit() {
      made.width = Math.max(160, Math.floor(holder.clientWidth));
      canvas.width = Math.round(made.width * devicePixelRatio);
      canvas.height = Math.round(now * devicePixelRatio);
      canvas.style.width = made.width + "px";
      canvas.style.height = now + "px";
      made.paint();
    }
    new ResizeObserver(() => { if (Math.max(160, Math.floor(holder.clientWidth)) !== made.width) fit(); }).observe(holder);
    Theme.changed(() => { made.colours?.(); made.ask(); });
    made.fit = fit;
    return made;
  }

  const grouped = (value) => value.toLocaleString("en-US");

  function duration(ns) {
    if (ns < 1000) return (Number.isInteger(ns) ? ns : ns.toPrecision(4)) + " ns";
    for (const [unit, size] of [["us", 1e3], ["ms", 1e6], ["s", 1e9]]) {
      if (ns < size * 1000 || unit === "s") return (ns / size).toPrecision(4) + " " + unit;
    }
  }

  function size(bytes) {
    if (bytes < 1024) return bytes + " B";
    let power = 1;
    while (power < 4 && bytes / 1024 ** power >= 1024) power++;
    return (bytes / 1024 ** power).toFixed(1) + " " + ["", "KiB", "MiB", "GiB", "TiB"][power];
  }

  // The first place of a sorted array whose value is not less.
  function place(values, wanted, low = 0, high = values.length) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // As much of a text as fits.
  function fitted(draw, text, width) {
    if (draw.measureText(text).width <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (draw.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
      else high = middle - 1;
    }
    return low > 2 ? text.slice(0, low) + "…" : "";
  }

  return { style, element, button, switcher, stateOf, surface, grouped, duration, size, place, fitted };
})();

for (const link of document.querySelectorAll(".snapshot nav a, .state a")) {
  link.addEventListener("click", (event) => {
    const target = document.getElementById(link.getAttribute("href").slice(1));
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView();
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
  });
}
