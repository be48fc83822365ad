// The calls of a window by thread, and their work by stream: 100,000 of them and more, so only what a pixel shows is
// drawn. The axis is the order of the calls, or the application's clock; when work began on the device nobody measured,
// so a launch stands where it was called, and its height is its time.
(() => {
  "use strict";

  const { element, button, switcher, stateOf, surface, style, grouped, duration, place, fitted } = Replay;
  const AXIS = 22, MAP = 30, CALLS = 20, WORK = 40, GAP = 6;
  const LAUNCH = 0, COPY = 1, FILL = 2, ORDER = 3, WAIT = 4;
  const HELP = "Arrow keys go from call to call and from row to row, + and - zoom, Shift with arrow keys pans, " +
    "Escape shows all, / searches, n and Shift+N go to the next and the previous call found.";

  function summed(steps) {
    const values = new Float64Array(steps.length);
    let sum = 0;
    for (let at = 0; at < steps.length; at++) values[at] = sum += steps[at];
    return values;
  }

  function read(figure) {
    const texts = JSON.parse(figure.querySelector(".texts").textContent);
    const columns = JSON.parse(figure.querySelector(".columns").textContent);
    const count = columns.which.length, gpu = new Float64Array(count).fill(-1);
    const known = summed(columns.gpu[0]);
    known.forEach((at, row) => { gpu[at] = columns.gpu[1][row]; });
    const data = {
      ...texts, count, gpu, which: Uint32Array.from(columns.which), numbers: summed(columns.numbers),
      begins: summed(columns.begins), durations: Float64Array.from(columns.durations),
      from: summed(columns.from), to: summed(columns.to),
    };
    let least = Infinity, greatest = 0;
    for (const time of gpu) if (time >= 0) { least = Math.min(least, time); greatest = Math.max(greatest, time); }
    // At least a factor of four from the least to the greatest, or the smallest noise would look like mountains.
    data.gpuScale = greatest > 0 ? [Math.log(Math.max(1, Math.min(least, greatest / 4))), Math.log(Math.max(4, greatest))] : null;
    const held = texts.rows.map(() => []);
    for (let at = 0; at < count; at++) {
      const kind = texts.kinds[data.which[at]];
      held[kind[2]].push(at);
      if (kind[3] >= 0 && kind[1] !== WAIT) held[kind[3]].push(at);
    }
    data.rows = texts.rows.map(([sort, name], row) => ({ sort, name, calls: Uint32Array.from(held[row]) }))
      .filter((row) => row.calls.length);
    return data;
  }

  // Where each call is on an axis: [begin, end] of all, and of each row in the order of the axis.
  function placed(data, axis) {
    const begins = new Float64Array(data.count), ends = new Float64Array(data.count);
    for (let at = 0; at < data.count; at++) {
      begins[at] = axis === "time" ? data.begins[at] : at;
      ends[at] = axis === "time" ? data.begins[at] + data.durations[at] : at + 1;
    }
    let whole = 0;
    for (const end of ends) whole = Math.max(whole, end);
    const rows = data.rows.map((row) => {
      const calls = row.calls.slice();
      let ordered = true;
      for (let at = 1; at < calls.length; at++) if (begins[calls[at]] < begins[calls[at - 1]]) { ordered = false; break; }
      if (!ordered) calls.sort((one, other) => begins[one] - begins[other]);
      return { calls, begins: Float64Array.from(calls, (at) => begins[at]) };
    });
    return { begins, ends, rows, whole: whole || 1 };
  }

  function build(figure, window) {
    const data = read(figure);
    if (!data.count) return;
    figure.hidden = false;
    const state = stateOf(window), axes = {}, stage = figure.querySelector(".stage");
    const limits = (axis) => (axes[axis] ??= placed(data, axis));
    let axis = data.timed && state.get("x") !== "order" ? "time" : "order";
    let low = 0, high = limits(axis).whole, picked = -1, matches = null, found = null, colours = {};

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
        axis = value;
        state.set("x", value === "order" ? "order" : "");
        show(0, limits(axis).whole);
      });
      press(axis);
    }
    button("+", "Zoom in", right, () => zoom(0.5));
    button("−", "Zoom out", right, () => zoom(2));
    button("All", "Show all calls", right, () => show(0, limits(axis).whole));
    const group = element("div", "canvas", stage);
    group.tabIndex = 0;
    group.setAttribute("role", "application");
    group.setAttribute("aria-label", `Timeline of ${grouped(data.count)} calls. ${HELP}`);
    const height = MAP + AXIS + data.rows.reduce((sum, row) => sum + (row.sort === "work" ? WORK : CALLS) + GAP, 0) + 4;
    const picture = surface(group, height, `Timeline of ${grouped(data.count)} calls`, paint);
    picture.colours = () => { colours = {}; };
    const told = element("div", "told", stage);
    told.setAttribute("role", "status");
    const note = element("p", "quiet", stage);

    const colour = (name) => (colours[name] ??= style(name));
    const gutter = () => (picture.width < 560 ? 78 : 150);
    const scale = () => (picture.width - gutter()) / (high - low);
    const toX = (value) => gutter() + (value - low) * scale();

    function say() {
      const timed = data.gpuScale ? " The height of a launch is its GPU time in the application, on a logarithmic scale;" +
        " when it began was not measured, so it stands where it was called." : " No launch was timed in the application.";
      note.textContent = (axis === "time"
        ? "The axis is the application's clock: when each call was made, and how long it took."
        : "The axis is the order of the calls, not time" + (data.timed ? "." : ", which was not recorded.")) + timed +
        (data.arrowsLeftOut ? ` ${grouped(data.arrowsLeftOut)} waits for events are not drawn.` : "");
    }

    // -- where the drawing looks
    function show(from, to, keep) {
      const whole = limits(axis).whole, least = axis === "time" ? 50 : 4;
      let width = Math.min(whole, Math.max(least, to - from));
      low = Math.max(0, Math.min(from, whole - width));
      high = low + width;
      if (!keep) state.set("t", width >= whole ? "" : `${Math.round(low)},${Math.round(high)}`);
      picture.ask();
      say();
    }
    function zoom(factor, at) {
      if (at === undefined) {
        const middle = picked >= 0 ? limits(axis).begins[picked] : NaN;
        at = middle >= low && middle <= high ? middle : (low + high) / 2;
      }
      const share = (at - low) / (high - low), width = (high - low) * factor;
      show(at - share * width, at + (1 - share) * width);
    }
    function reveal(at) {
      const { begins } = limits(axis), width = high - low;
      if (begins[at] < low || begins[at] > high) show(begins[at] - width / 2, begins[at] + width / 2);
    }

    // -- drawing
    const rank = [0, 2, 2, 4, 3, 5];  // what is drawn where one pixel has several
    const inks = () => [colour("a"), colour("ink"), colour("soft"), colour("line"), colour("line"), colour("line")];

    function paint(draw, width, all) {
      const { begins, ends, rows } = limits(axis), left = gutter(), k = scale(), ink = inks();
      draw.fillStyle = colour("paper"); draw.fillRect(0, 0, width, all);
      paintMap(draw, width, left);
      paintAxis(draw, width, left, all);
      let top = MAP + AXIS;
      rows.forEach((row, number) => {
        const { sort, name } = data.rows[number], tall = sort === "work" ? WORK : CALLS;
        draw.fillStyle = colour("shade"); draw.fillRect(left, top, width - left, tall);
        draw.fillStyle = colour("soft"); draw.textAlign = "left";
        draw.fillText(fitted(draw, name, left - 12), 0, top + tall / 2);
        draw.save(); draw.beginPath(); draw.rect(left, top, width - left, tall); draw.clip();
        paintRow(draw, row, sort, top, tall, left, k, ink, begins, ends, width);
        draw.restore();
        data.rows[number].top = top; data.rows[number].tall = tall;
        top += tall + GAP;
      });
      paintArrows(draw, begins, left, width);
      if (picked >= 0) outline(draw, begins, ends, k, left, width);
    }

    function tallness(call, kind, tall) {
      if (kind[1] === LAUNCH) {
        if (!data.gpuScale || data.gpu[call] < 0) return tall * 0.35;
        const [least, most] = data.gpuScale;
        return tall * (0.3 + 0.68 * (Math.log(Math.max(1, data.gpu[call])) - least) / (most - least));
      }
      return tall * (kind[1] === ORDER ? 0.16 : 0.3);
    }

    function paintRow(draw, row, sort, top, tall, left, k, ink, begins, ends, width) {
      const { calls } = row;
      let at = Math.max(0, place(row.begins, low) - 1);
      while (at < calls.length && row.begins[at] <= high) {
        const call = calls[at], x = left + (row.begins[at] - low) * k;
        const wide = (ends[call] - begins[call]) * k;
        const following = at + 1 < calls.length ? left + (row.begins[at + 1] - low) * k : Infinity;
        if (following - x >= 2 || wide >= 3) {
          const kind = data.kinds[data.which[call]];
          const room = Math.max(1.5, Math.min(wide, following - x) - (wide > 4 ? 0.75 : 0));
          one(draw, call, kind, sort, x, Math.max(1.5, sort === "calls" ? Math.max(1.5, wide) : room), top, tall, ink);
          const space = Math.min(wide, following - x, width - x) - 8;
          if (space > 34) label(draw, kind, sort, Math.max(x, left) + 4, top, tall, space - Math.max(0, left - x), call);
          at++;
          continue;
        }
        // All that begins in this pixel, as one line
        const pixel = Math.floor(x), until = low + (pixel + 1 - left) / k;
        let best = 9, most = 0, hit = false;
        do {
          const other = calls[at], kind = data.kinds[data.which[other]];
          if (rank[kind[1]] < best) best = rank[kind[1]];
          if (sort === "work") most = Math.max(most, tallness(other, kind, tall));
          if (matches && matches[data.which[other]]) hit = true;
          at++;
        } while (at < calls.length && row.begins[at] < until);
        const tallest = sort === "work" ? most : tall - 4;
        draw.globalAlpha = matches && !hit ? 0.22 : 1;
        draw.fillStyle = ink[rank.indexOf(best)];
        draw.fillRect(pixel, top + tall - tallest - (sort === "work" ? 1 : 2), 1, tallest);
      }
      draw.globalAlpha = 1;
    }

    function one(draw, call, kind, sort, x, wide, top, tall, ink) {
      const tallest = sort === "work" ? tallness(call, kind, tall) : tall - 4;
      const y = top + tall - tallest - (sort === "work" ? 1 : 2);
      draw.globalAlpha = matches && !matches[data.which[call]] ? 0.22 : 1;
      if (kind[1] === LAUNCH && sort === "work" && data.gpu[call] < 0) {
        draw.strokeStyle = ink[LAUNCH]; draw.lineWidth = 1;
        draw.strokeRect(x + 0.5, y + 0.5, Math.max(1, wide - 1), tallest - 1);
      } else {
        draw.fillStyle = ink[kind[1]];
        draw.fillRect(x, y, wide, tallest);
      }
    }

    function label(draw, kind, sort, x, top, tall, space, call) {
      const text = fitted(draw, kind[4] || kind[0].replace(/^cu/, ""), space);
      if (!text) return;
      const inside = sort === "calls" ? tall - 4 : tallness(call, kind, tall);
      const dark = kind[1] === LAUNCH && (sort === "calls" || (data.gpu[call] >= 0 && inside > 15));
      const on = dark ? colour("paper") : kind[1] === COPY && sort === "calls" ? colour("paper")
        : kind[1] === FILL && sort === "calls" ? colour("paper") : colour("ink");
      draw.fillStyle = on; draw.textAlign = "left";
      const y = sort === "calls" ? top + tall / 2 : inside > 15 ? top + tall - inside / 2 - 1 : top + tall - inside - 9;
      draw.fillText(text, x, y);
    }

    function paintMap(draw, width, left) {
      const { whole, begins } = limits(axis), room = width - left, tall = MAP - 10;
      const key = axis + room;
      if (data.mapKey !== key) {
        const bins = new Float64Array(room);
        for (let at = 0; at < data.count; at++) {
          if (data.kinds[data.which[at]][1] === LAUNCH) bins[Math.min(room - 1, Math.floor(begins[at] / whole * room))]++;
        }
        data.map = bins; data.mapKey = key; data.mapTop = Math.max(1, ...bins);
      }
      draw.fillStyle = colour("soft"); draw.textAlign = "left";
      draw.fillText("all launches", 0, 2 + tall / 2);
      draw.fillStyle = colour("shade"); draw.fillRect(left, 2, room, tall);
      draw.fillStyle = colour("a"); draw.globalAlpha = 0.55;
      data.map.forEach((many, at) => {
        if (many) { const up = Math.max(1, many / data.mapTop * (tall - 2)); draw.fillRect(left + at, 2 + tall - up, 1, up); }
      });
      draw.globalAlpha = 1;
      const from = left + low / whole * room, to = left + high / whole * room;
      draw.strokeStyle = colour("ink"); draw.lineWidth = 1.25;
      draw.strokeRect(from + 0.5, 1.5, Math.max(3, to - from - 1), tall + 1);
    }

    function paintAxis(draw, width, left, all) {
      const step = round((high - low) / Math.max(2, (width - left) / 110));
      draw.textAlign = "center"; draw.strokeStyle = colour("line"); draw.lineWidth = 1;
      const shift = axis === "time" ? 0 : 1;  // calls are counted from 1
      for (let value = Math.ceil((low + shift) / step) * step - shift; value <= high; value += step) {
        const x = toX(value + (shift ? 0.5 : 0));
        draw.beginPath(); draw.moveTo(x, MAP + AXIS - 4); draw.lineTo(x, all); draw.stroke();
        const text = axis === "time" ? duration(Math.round(value)).replace(/\.?0+ /, " ") : grouped(Math.round(value) + 1);
        if (x > left + 20 && x < width - 24) { draw.fillStyle = colour("soft"); draw.fillText(text, x, MAP + 8); }
      }
      draw.fillStyle = colour("soft"); draw.textAlign = "left";
      draw.fillText(axis === "time" ? "clock" : "call", 0, MAP + 8);
    }

    function round(value) {
      const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
      for (const factor of [1, 2, 5, 10]) if (value <= factor * power) return Math.max(1, factor * power);
      return 10 * power;
    }

    const rowOf = (call, sort) => data.rows.find((row) => row.sort === sort && has(row, call));
    const has = (row, call) => { const at = place(row.calls, call); return row.calls[at] === call; };
    const middleOf = (call) => {
      const row = rowOf(call, "work") ?? rowOf(call, "calls");
      return row ? row.top + row.tall / 2 : 0;
    };

    function arrowsOf(call) {
      const before = [], after = [];
      for (let at = 0; at < data.to.length; at++) {
        if (data.to[at] === call) before.push(data.from[at]);
        if (data.from[at] === call) after.push(data.to[at]);
      }
      return { before, after };
    }

    function paintArrows(draw, begins, left, width) {
      draw.save(); draw.beginPath(); draw.rect(left, MAP + AXIS, width - left, picture.height); draw.clip();
      const visible = [];
      for (let at = 0; at < data.to.length && visible.length <= 160; at++) {
        const from = begins[data.from[at]], to = begins[data.to[at]];
        if (to >= low && from <= high && (to - from) * scale() > 1) visible.push(at);
      }
      if (visible.length <= 160) for (const at of visible) arrow(draw, data.from[at], data.to[at], begins, colour("b"), 0.55);
      if (picked >= 0) {
        const { before, after } = arrowsOf(picked);
        for (const call of before) arrow(draw, call, picked, begins, colour("b"), 1);
        for (const call of after.slice(0, 100)) arrow(draw, picked, call, begins, colour("b"), 1);
      }
      draw.restore();
    }

    function arrow(draw, from, to, begins, ink, alpha) {
      const x1 = toX(begins[from]), x2 = toX(begins[to]), y1 = middleOf(from), y2 = middleOf(to);
      const bend = Math.min(60, Math.max(12, (x2 - x1) / 2));
      draw.globalAlpha = alpha; draw.strokeStyle = ink; draw.fillStyle = ink; draw.lineWidth = 1.25;
      draw.beginPath(); draw.moveTo(x1, y1); draw.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2); draw.stroke();
      draw.beginPath(); draw.moveTo(x2, y2); draw.lineTo(x2 - 6, y2 - 3); draw.lineTo(x2 - 6, y2 + 3); draw.fill();
      draw.globalAlpha = 1;
    }

    function outline(draw, begins, ends, k, left, width) {
      draw.strokeStyle = colour("ink"); draw.lineWidth = 2;
      for (const row of data.rows) {
        if (!has(row, picked)) continue;
        const x = toX(begins[picked]), wide = Math.max(5, (ends[picked] - begins[picked]) * k);
        if (x + wide < left || x > width) continue;
        draw.strokeRect(Math.max(left, x) - 1.5, row.top + 0.5, Math.min(wide, width - x) + 3, row.tall - 1);
      }
    }

    // -- a call that is picked
    function pick(call, quiet) {
      picked = call;
      state.set("call", call < 0 ? "" : data.numbers[call]);
      told.replaceChildren();
      if (call >= 0) { if (!quiet) reveal(call); describe(call); }
      picture.ask();
    }

    function describe(call) {
      const kind = data.kinds[data.which[call]], { before, after } = arrowsOf(call);
      const line = element("p", "", told);
      element("b", "", line, `Call ${grouped(data.numbers[call])}`);
      line.append(` ${kind[0]}${kind[4] ? ` → ${kind[4]}` : ""}`);
      const facts = [kind[5]];
      const rows = data.rows.filter((row) => has(row, call)).map((row) => row.name);
      facts.push(rows.join(", "));
      if (kind[1] === LAUNCH) facts.push(data.gpu[call] >= 0 ? `${duration(data.gpu[call])} on the GPU` : "GPU time not taken");
      if (data.timed) facts.push(`the call took ${duration(data.durations[call])}`);
      element("p", "facts", told, facts.filter(Boolean).join(" · "));
      if (before.length || after.length) {
        const waits = element("p", "facts", told);
        const link = (other) => button(`call ${grouped(data.numbers[other])}`, `Go to call ${data.numbers[other]}`, waits, () => pick(other));
        if (before.length) { waits.append("Waits for what came before "); before.slice(0, 6).forEach(link); }
        if (after.length) { waits.append(" Is waited for by "); after.slice(0, 6).forEach(link); }
        if (after.length > 6) waits.append(` and ${after.length - 6} more`);
      }
    }

    // -- search
    function seek(text, quiet) {
      const words = text.trim().toLowerCase();
      state.set("q", words);
      found = null; matches = null; count.textContent = "";
      if (words) {
        matches = data.kinds.map((kind) => (kind[0] + " " + kind[4] + " " + kind[5]).toLowerCase().includes(words));
        const calls = [];
        for (let at = 0; at < data.count; at++) if (matches[data.which[at]]) calls.push(at);
        const number = Number(words.replace(/^(call|#)\s*/, "").replaceAll(",", ""));
        if (!calls.length && Number.isInteger(number)) {
          const at = data.numbers.indexOf(number);
          if (at >= 0) calls.push(at);
          if (at >= 0) matches = null;
        }
        found = calls;
        count.textContent = calls.length ? `${grouped(calls.length)} of ${grouped(data.count)} calls` : "nothing found";
        if (calls.length && !quiet && picked < 0) pick(calls[0]);
        if (calls.length && !quiet && !calls.includes(picked)) pick(calls[0]);
      }
      picture.ask();
    }
    function next(step) {
      if (!found?.length) return;
      const at = place(found, picked + (step > 0 ? 1 : 0));
      pick(found[step > 0 ? at % found.length : (at - 1 + found.length) % found.length]);
    }
    let typing = 0;
    search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => seek(search.value), 120); });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { clearTimeout(typing); if (found === null) seek(search.value); else next(event.shiftKey ? -1 : 1); }
      else if (event.key === "Escape") { search.value = ""; seek(""); group.focus(); }
    });

    // -- pointer and keyboard
    function callAt(x, y) {
      const number = data.rows.findIndex((row) => y >= row.top && y < row.top + row.tall);
      if (number < 0 || x < gutter()) return -1;
      const row = limits(axis).rows[number], { ends } = limits(axis), value = low + (x - gutter()) / scale();
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
      const onMap = event.offsetY < MAP;
      held = { x: event.offsetX, low, high, moved: false, onMap };
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
    picture.canvas.addEventListener("dblclick", () => show(0, limits(axis).whole));
    function jump(x) {
      const at = (x - gutter()) / (picture.width - gutter()) * limits(axis).whole, width = high - low;
      show(at - width / 2, at + width / 2);
    }
    group.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (!sideways && !(event.ctrlKey || event.metaKey || document.activeElement === group)) return;
      event.preventDefault();
      if (sideways) { const by = (event.deltaX || event.deltaY) / scale(); show(low + by, high + by); }
      else zoom(Math.exp(event.deltaY * 0.002), low + (event.offsetX - gutter()) / scale());
    }, { passive: false });

    function step(by) {
      const rows = limits(axis).rows;
      let number = data.rows.findIndex((row) => picked >= 0 && row.sort === lane.sort && has(row, picked));
      if (number < 0) number = data.rows.findIndex((row) => picked >= 0 && has(row, picked));
      if (number < 0) { const call = first(); if (call >= 0) pick(call); return; }
      const calls = rows[number].calls, at = calls.indexOf(picked) + by;
      if (at >= 0 && at < calls.length) pick(calls[at]);
    }
    const lane = { sort: data.rows.some((row) => row.sort === "work") ? "work" : "calls" };
    function first() {
      const rows = limits(axis).rows, number = Math.max(0, data.rows.findIndex((row) => row.sort === lane.sort));
      const row = rows[number], at = place(row.begins, low);
      return row.calls[Math.min(at, row.calls.length - 1)] ?? -1;
    }
    function other(by) {
      const from = data.rows.findIndex((row) => picked >= 0 && row.sort === lane.sort && has(row, picked));
      const to = from < 0 ? 0 : from + by;
      if (to < 0 || to >= data.rows.length) return;
      lane.sort = data.rows[to].sort;
      const row = limits(axis).rows[to], at = place(row.begins, picked < 0 ? low : limits(axis).begins[picked]);
      const call = row.calls[Math.min(at, row.calls.length - 1)];
      if (call !== undefined) pick(call);
    }
    group.addEventListener("keydown", (event) => {
      const width = high - low, whole = limits(axis).whole, row = limits(axis).rows;
      const keys = {
        ArrowLeft: () => (event.shiftKey ? show(low - width / 4, high - width / 4) : step(-1)),
        ArrowRight: () => (event.shiftKey ? show(low + width / 4, high + width / 4) : step(1)),
        ArrowUp: () => other(-1), ArrowDown: () => other(1),
        Home: () => pick(row[0].calls[0]), End: () => pick(row[0].calls[row[0].calls.length - 1]),
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
      else show(0, limits(axis).whole, true);
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
