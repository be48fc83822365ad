// The calls of a window by thread, and their work by stream: 100,000 of them and more, so only what a pixel shows is
// drawn. The axis is the order of the calls, or the application's clock; when work began on the device nobody measured,
// so a launch stands where it was called, and its height is its time.
(() => {
  "use strict";

  const { element, button, switcher, stateOf, surface, grouped, duration, place } = Replay;
  const { has, arrowsOf, LAUNCH } = Calls;
  const HELP = "Arrow keys go from call to call and from row to row, + and - zoom, Shift with arrow keys pans, " +
    "Escape shows all, / searches, n and Shift+N go to the next and the previous call found.";

  function build(figure, window) {
    const data = Calls.read(figure);
    if (!data.count) return;
    figure.hidden = false;
    const state = stateOf(window), axes = {}, stage = figure.querySelector(".stage");
    const limits = (axis) => (axes[axis] ??= Calls.placed(data, axis));
    const view = { axis: "order", low: 0, high: 1, picked: -1, matches: null };
    if (data.timed && state.get("x") !== "order") view.axis = "time";
    const painter = Painting.painter(data, limits, view), lane = { sort: "work" };
    let found = null;

    // -- what is around the drawing
    const bar = element("div", "tools", stage);
    const search = element("input", "", bar);
    search.type = "search";
    search.placeholder = "Search kernels, functions, call numbers";
    search.setAttribute("aria-label", "Search calls");
    search.spellcheck = false;
    button("↑", "Previous call found", bar, () => next(-1));
    button("↓", "Next call found", bar, () => next(1));
    const count = element("span", "count", bar);
    count.setAttribute("role", "status");
    const right = element("span", "right", bar);
    let press = () => {};
    if (data.timed) {
      press = switcher([["time", "Clock"], ["order", "Order"]], "Axis", right, (value) => {
        view.axis = value;
        state.set("x", value === "order" ? "order" : "");
        show(0, limits(view.axis).whole);
      });
      press(view.axis);
    }
    button("+", "Zoom in", right, () => zoom(0.5));
    button("−", "Zoom out", right, () => zoom(2));
    button("All", "Show all calls", right, () => show(0, limits(view.axis).whole));
    const group = element("div", "canvas", stage);
    group.tabIndex = 0;
    group.setAttribute("role", "application");
    group.setAttribute("aria-label", `Timeline of ${grouped(data.count)} calls. ${HELP}`);
    const picture = surface(group, Painting.height(data), `Timeline of ${grouped(data.count)} calls`, painter.paint);
    picture.colours = painter.forget;
    const told = element("div", "told", stage);
    told.setAttribute("role", "status");
    const note = element("p", "quiet", stage);

    const scale = () => painter.scale(picture.width), gutter = () => painter.gutter(picture.width);

    function say() {
      const timed = data.gpuScale
        ? " The height of a launch is its GPU time in the application, on a logarithmic scale;" +
          " when it began was not measured, so it stands where it was called."
        : " No launch was timed in the application.";
      const text = (view.axis === "time"
        ? "The axis is the application's clock: when each call was made, and how long it took."
        : "The axis is the order of the calls, not time" + (data.timed ? "." : ", which was not recorded.")) + timed +
        (data.arrowsLeftOut ? ` ${grouped(data.arrowsLeftOut)} waits for events are not drawn.` : "");
      if (note.textContent !== text) note.textContent = text;
    }

    // -- where the drawing looks
    function show(from, to, keep) {
      const whole = limits(view.axis).whole, least = view.axis === "time" ? 50 : 4;
      let width = Math.min(whole, Math.max(least, to - from));
      view.low = Math.max(0, Math.min(from, whole - width));
      view.high = view.low + width;
      if (!keep) state.set("t", width >= whole ? "" : `${Math.round(view.low)},${Math.round(view.high)}`);
      picture.ask();
      say();
    }
    function zoom(factor, at) {
      if (at === undefined) {
        const middle = view.picked >= 0 ? limits(view.axis).begins[view.picked] : NaN;
        at = middle >= view.low && middle <= view.high ? middle : (view.low + view.high) / 2;
      }
      const share = (at - view.low) / (view.high - view.low), width = (view.high - view.low) * factor;
      show(at - share * width, at + (1 - share) * width);
    }
    function reveal(at) {
      const { begins } = limits(view.axis), width = view.high - view.low;
      if (begins[at] < view.low || begins[at] > view.high) show(begins[at] - width / 2, begins[at] + width / 2);
    }

    // -- a call that is picked
    function pick(call, quiet) {
      view.picked = call;
      state.set("call", call < 0 ? "" : data.numbers[call]);
      told.replaceChildren();
      if (call >= 0) { if (!quiet) reveal(call); describe(call); }
      picture.ask();
    }

    function describe(call) {
      const kind = data.kinds[data.which[call]], { before, after } = arrowsOf(data, call);
      const line = element("p", "", told);
      element("b", "", line, `Call ${grouped(data.numbers[call])}`);
      line.append(` ${kind[0]}${kind[4] ? ` → ${kind[4]}` : ""}`);
      const facts = [kind[5]];
      const rows = data.rows.filter((row) => has(row, call)).map((row) => row.name + row.handle);
      facts.push(rows.join(", "));
      if (kind[1] === LAUNCH) {
        facts.push(data.gpu[call] >= 0 ? `${duration(data.gpu[call])} on the GPU` : "GPU time not taken");
      }
      if (data.timed) facts.push(`the call took ${duration(data.durations[call])}`);
      element("p", "facts", told, facts.filter(Boolean).join(" · "));
      if (before.length || after.length) {
        const waits = element("p", "facts", told);
        const link = (other) => {
          button(`call ${grouped(data.numbers[other])}`, `Go to call ${data.numbers[other]}`, waits, () => pick(other));
        };
        if (before.length) { waits.append("Waits for what came before "); before.slice(0, 6).forEach(link); }
        if (after.length) { waits.append(" Is waited for by "); after.slice(0, 6).forEach(link); }
        if (after.length > 6) waits.append(` and ${after.length - 6} more`);
      }
    }

    // -- search
    function seek(text, quiet) {
      const words = text.trim().toLowerCase();
      state.set("q", words);
      found = null; view.matches = null; count.textContent = "";
      if (words) {
        const whole = (kind) => (kind[0] + " " + kind[4] + " " + kind[5]).toLowerCase();
        view.matches = data.kinds.map((kind) => whole(kind).includes(words));
        const calls = [];
        for (let at = 0; at < data.count; at++) if (view.matches[data.which[at]]) calls.push(at);
        const number = Number(words.replace(/^(call|#)\s*/, "").replaceAll(",", ""));
        if (!calls.length && Number.isInteger(number)) {
          const at = data.numbers.indexOf(number);
          if (at >= 0) calls.push(at);
          if (at >= 0) view.matches = null;
        }
        found = calls;
        count.textContent = calls.length ? `${grouped(calls.length)} of ${grouped(data.count)} calls` : "nothing found";
        if (calls.length && !quiet && view.picked < 0) pick(calls[0]);
        if (calls.length && !quiet && !calls.includes(view.picked)) pick(calls[0]);
      }
      picture.ask();
    }
    function next(step) {
      if (!found?.length) return;
      const at = place(found, view.picked + (step > 0 ? 1 : 0));
      pick(found[step > 0 ? at % found.length : (at - 1 + found.length) % found.length]);
    }
    let typing = 0;
    search.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => seek(search.value), 120);
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        clearTimeout(typing);
        if (found === null) seek(search.value);
        else next(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") { search.value = ""; seek(""); group.focus(); }
    });

    // -- pointer and keyboard
    function callAt(x, y) {
      const number = data.rows.findIndex((row) => y >= row.top && y < row.top + row.tall);
      if (number < 0 || x < gutter()) return -1;
      lane.sort = data.rows[number].sort;
      const { rows, ends } = limits(view.axis), row = rows[number], value = view.low + (x - gutter()) / scale();
      const at = place(row.begins, value);
      let best = -1, near = 6 / scale();
      for (let other = Math.max(0, at - 3); other < Math.min(row.calls.length, at + 3); other++) {
        const call = row.calls[other], begin = row.begins[other];
        const away = value < begin ? begin - value : Math.max(0, value - ends[call]);
        if (away <= near) { near = away; best = call; }
      }
      return best;
    }
    let held = null;
    picture.canvas.addEventListener("pointerdown", (event) => {
      const onMap = event.offsetY < Painting.MAP;
      held = { x: event.offsetX, low: view.low, high: view.high, moved: false, onMap };
      picture.canvas.setPointerCapture(event.pointerId);
      if (onMap) jump(event.offsetX);
    });
    picture.canvas.addEventListener("pointermove", (event) => {
      if (!held) return;
      if (held.onMap) { jump(event.offsetX); return; }
      if (Math.abs(event.offsetX - held.x) > 3) held.moved = true;
      if (held.moved) {
        const by = (held.x - event.offsetX) / ((picture.width - gutter()) / (held.high - held.low));
        show(held.low + by, held.high + by);
      }
    });
    picture.canvas.addEventListener("pointerup", (event) => {
      if (held && !held.moved && !held.onMap) pick(callAt(event.offsetX, event.offsetY), true);
      held = null;
    });
    picture.canvas.addEventListener("dblclick", () => show(0, limits(view.axis).whole));
    function jump(x) {
      const at = (x - gutter()) / (picture.width - gutter()) * limits(view.axis).whole, width = view.high - view.low;
      show(at - width / 2, at + width / 2);
    }
    group.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (!sideways && !(event.ctrlKey || event.metaKey || document.activeElement === group)) return;
      event.preventDefault();
      if (sideways) { const by = (event.deltaX || event.deltaY) / scale(); show(view.low + by, view.high + by); }
      else zoom(Math.exp(event.deltaY * 0.002), view.low + (event.offsetX - gutter()) / scale());
    }, { passive: false });

    // The row that the keyboard is in: of the two that a launch is in, the one of its stream, until somebody goes up.
    function rowNow() {
      const rows = data.rows.map((row, number) => number).filter((number) => has(data.rows[number], view.picked));
      const wanted = rows.find((number) => data.rows[number].sort === lane.sort) ?? rows[0];
      return wanted ?? Math.max(0, data.rows.findIndex((row) => row.sort === lane.sort));
    }
    function nearest(number, value) {
      const row = limits(view.axis).rows[number];
      return row.calls[Math.min(place(row.begins, value), row.calls.length - 1)];
    }
    function step(by) {
      const number = rowNow(), { calls } = limits(view.axis).rows[number], at = calls.indexOf(view.picked);
      pick(at < 0 ? nearest(number, view.low) : calls[Math.max(0, Math.min(calls.length - 1, at + by))]);
    }
    function other(by) {
      const to = rowNow() + (view.picked < 0 ? 0 : by);
      if (to < 0 || to >= data.rows.length) return;
      lane.sort = data.rows[to].sort;
      pick(nearest(to, view.picked < 0 ? view.low : limits(view.axis).begins[view.picked]));
    }
    function outermost(last) {
      const { calls } = limits(view.axis).rows[rowNow()];
      pick(calls[last ? calls.length - 1 : 0]);
    }
    group.addEventListener("keydown", (event) => {
      const width = view.high - view.low, whole = limits(view.axis).whole;
      const keys = {
        ArrowLeft: () => (event.shiftKey ? show(view.low - width / 4, view.high - width / 4) : step(-1)),
        ArrowRight: () => (event.shiftKey ? show(view.low + width / 4, view.high + width / 4) : step(1)),
        ArrowUp: () => other(-1), ArrowDown: () => other(1),
        Home: () => outermost(false), End: () => outermost(true),
        "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
        Escape: () => { pick(-1); show(0, whole); }, "/": () => search.focus(), n: () => next(1), N: () => next(-1),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });

    // -- as the URL says
    function restore() {
      const range = (state.get("t") ?? "").split(",").map(Number);
      if (range.length === 2 && range.every(Number.isFinite) && range[1] > range[0]) show(range[0], range[1], true);
      else show(0, limits(view.axis).whole, true);
      const words = state.get("q");
      if (words) { search.value = words; seek(words, true); }
      const call = Number(state.get("call") ?? NaN);
      if (Number.isFinite(call)) { const at = data.numbers.indexOf(call); if (at >= 0) pick(at, range.length === 2); }
    }
    picture.fit();
    restore();
  }

  for (const figure of document.querySelectorAll("figure.timeline")) {
    build(figure, Number(figure.closest(".snapshot").dataset.window));
  }
})();
