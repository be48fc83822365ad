// Draws a stretch of a timeline. view: low, high, axis, picked, matches. Calls that share a pixel are one line.
const Painting = (() => {
  "use strict";

  const { style, grouped, duration, place, fitted } = Replay, { has, arrowsOf, LAUNCH, COPY, FILL } = Calls;
  const AXIS = 22, MAP = 30, CALLS = 20, WORK = 40, GAP = 6, ARROWS = 160;
  const RANK = [0, 2, 2, 4, 3, 5];  // of sorts: the lowest is drawn where one pixel has several
  const INKS = ["a", "ink", "soft", "line", "line", "line"];

  const tall = (row) => (row.sort === "work" ? WORK : CALLS);
  const height = (data) => MAP + AXIS + data.rows.reduce((sum, row) => sum + tall(row) + GAP, 0) + 4;
  const gutter = (width) => (width < 560 ? 78 : 150);

  function painter(data, limits, view) {
    const ranks = data.kinds.map((kind) => RANK[kind[1]]);
    let colours = {}, map = null;
    const colour = (name) => (colours[name] ??= style(name));
    const scale = (width) => (width - gutter(width)) / (view.high - view.low);
    let k = 1, left = 0, width = 0;
    const toX = (value) => left + (value - view.low) * k;

    function paint(draw, wide, all) {
      width = wide; left = gutter(wide); k = scale(wide);
      const placed = limits(view.axis);
      draw.fillStyle = colour("paper"); draw.fillRect(0, 0, width, all);
      paintMap(draw, placed);
      paintAxis(draw, all);
      let top = MAP + AXIS;
      placed.rows.forEach((row, number) => {
        const shown = data.rows[number];
        shown.top = top; shown.tall = tall(shown);
        draw.fillStyle = colour("shade"); draw.fillRect(left, top, width - left, shown.tall);
        draw.fillStyle = colour("soft"); draw.textAlign = "left";
        draw.fillText(fitted(draw, shown.name, left - 12), 0, top + shown.tall / 2);
        draw.save(); draw.beginPath(); draw.rect(left, top, width - left, shown.tall); draw.clip();
        paintRow(draw, row, shown, placed);
        draw.restore();
        top += shown.tall + GAP;
      });
      paintArrows(draw, placed.begins);
      if (view.picked >= 0) outline(draw, placed);
    }

    function paintRow(draw, row, shown, { begins, ends }) {
      const { calls } = row, work = shown.sort === "work", foot = shown.top + shown.tall - (work ? 1 : 2);
      // Neighbouring lines that look the same are drawn as one.
      let run = null;
      const flush = () => {
        if (!run) return;
        draw.globalAlpha = run.faint ? 0.22 : 1; draw.fillStyle = colour(run.ink);
        draw.fillRect(run.x, foot - run.up, run.until - run.x, run.up);
        run = null;
      };
      let at = Math.max(0, place(row.begins, view.low) - 1);
      while (at < calls.length && row.begins[at] <= view.high) {
        const call = calls[at], x = toX(row.begins[at]), wide = (ends[call] - begins[call]) * k;
        const following = at + 1 < calls.length ? toX(row.begins[at + 1]) : Infinity;
        if (following - x >= 2 || wide >= 3) {
          flush();
          const kind = data.kinds[data.which[call]], space = Math.min(wide, following - x, width - x) - 8;
          const room = work ? Math.min(wide, following - x) - (wide > 4 ? 0.75 : 0) : wide;
          one(draw, call, kind, shown, x, Math.max(1.5, room), foot);
          if (space > 34) label(draw, call, kind, shown, Math.max(x, left) + 4, space - Math.max(0, left - x), foot);
          at++;
          continue;
        }
        const pixel = Math.floor(x), until = view.low + (pixel + 1 - left) / k;
        let best = 9, most = 0, hit = false;
        do {
          const other = calls[at], rank = ranks[data.which[other]];
          if (rank < best) best = rank;
          if (work && data.share[other] > most) most = data.share[other];
          if (view.matches && view.matches[data.which[other]]) hit = true;
          at++;
        } while (at < calls.length && row.begins[at] < until);
        const up = work ? most * shown.tall : shown.tall - 4, ink = INKS[RANK.indexOf(best)], faint = view.matches !== null && !hit;
        if (run && (run.until !== pixel || run.ink !== ink || run.up !== up || run.faint !== faint)) flush();
        run ??= { x: pixel, ink, up, faint, until: pixel };
        run.until = pixel + 1;
      }
      flush();
      draw.globalAlpha = 1;
    }

    function one(draw, call, kind, shown, x, wide, foot) {
      const work = shown.sort === "work", up = work ? data.share[call] * shown.tall : shown.tall - 4;
      draw.globalAlpha = view.matches && !view.matches[data.which[call]] ? 0.22 : 1;
      if (kind[1] === LAUNCH && work && data.gpu[call] < 0) {
        draw.strokeStyle = colour(INKS[LAUNCH]); draw.lineWidth = 1;
        draw.strokeRect(x + 0.5, foot - up + 0.5, Math.max(1, wide - 1), up - 1);
      } else {
        draw.fillStyle = colour(INKS[kind[1]]);
        draw.fillRect(x, foot - up, wide, up);
      }
    }

    function label(draw, call, kind, shown, x, space, foot) {
      const text = fitted(draw, kind[4] || kind[0].replace(/^cu/, ""), space);
      if (!text) return;
      const work = shown.sort === "work", up = work ? data.share[call] * shown.tall : shown.tall - 4;
      const timed = !work || data.gpu[call] >= 0, inside = up > 15;
      const filled = kind[1] === LAUNCH ? timed : kind[1] === COPY || kind[1] === FILL;
      draw.fillStyle = colour(inside && filled ? "paper" : "ink"); draw.textAlign = "left";
      draw.fillText(text, x, inside ? foot - up / 2 : foot - up - 9);
    }

    function paintMap(draw, { whole, begins }) {
      const room = width - left, up = MAP - 10, key = view.axis + room;
      if (map?.key !== key) {
        const bins = new Float64Array(room);
        for (let at = 0; at < data.count; at++) {
          if (data.kinds[data.which[at]][1] !== LAUNCH) continue;
          bins[Math.min(room - 1, Math.floor(begins[at] / whole * room))]++;
        }
        map = { key, bins, top: Math.max(1, ...bins) };
      }
      draw.fillStyle = colour("soft"); draw.textAlign = "left";
      draw.fillText(fitted(draw, "all launches", left - 8), 0, 2 + up / 2);
      draw.fillStyle = colour("shade"); draw.fillRect(left, 2, room, up);
      draw.fillStyle = colour("a"); draw.globalAlpha = 0.55;
      draw.beginPath();
      map.bins.forEach((many, at) => {
        const high = many ? Math.max(1, many / map.top * (up - 2)) : 0;
        if (high) draw.rect(left + at, 2 + up - high, 1, high);
      });
      draw.fill();
      draw.globalAlpha = 1;
      const from = left + view.low / whole * room, to = left + view.high / whole * room;
      draw.strokeStyle = colour("ink"); draw.lineWidth = 1.25;
      draw.strokeRect(from + 0.5, 1.5, Math.max(3, to - from - 1), up + 1);
    }

    function paintAxis(draw, all) {
      const time = view.axis === "time", step = round((view.high - view.low) / Math.max(2, (width - left) / 110));
      const shift = time ? 0 : 1;  // calls are counted from 1
      draw.strokeStyle = colour("line"); draw.lineWidth = 1; draw.textAlign = "center";
      for (let value = Math.ceil((view.low + shift) / step) * step - shift; value <= view.high; value += step) {
        const x = toX(value + shift / 2);
        draw.beginPath(); draw.moveTo(x, MAP + AXIS - 4); draw.lineTo(x, all); draw.stroke();
        const text = time ? duration(Math.round(value)).replace(/\.?0+ /, " ") : grouped(Math.round(value) + 1);
        draw.fillStyle = colour("soft");
        if (x > left + 20 && x < width - 24) draw.fillText(text, x, MAP + 8);
      }
      draw.fillStyle = colour("soft"); draw.textAlign = "left";
      draw.fillText(time ? "clock" : "call", 0, MAP + 8);
    }

    function round(value) {
      const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
      for (const factor of [1, 2, 5]) if (value <= factor * power) return factor * power;
      return 10 * power;
    }

    function middleOf(call) {
      const rows = data.rows.filter((row) => has(row, call));
      const row = rows.find((one) => one.sort === "work") ?? rows[0];
      return row ? row.top + row.tall / 2 : 0;
    }

    function paintArrows(draw, begins) {
      const visible = [];
      for (let at = 0; at < data.to.length && visible.length <= ARROWS; at++) {
        const from = begins[data.from[at]], to = begins[data.to[at]];
        if (to >= view.low && from <= view.high && (to - from) * k > 1) visible.push(at);
      }
      draw.save(); draw.beginPath(); draw.rect(left, MAP + AXIS, width - left, height(data)); draw.clip();
      if (visible.length <= ARROWS) for (const at of visible) arrow(draw, data.from[at], data.to[at], begins, 0.55);
      if (view.picked >= 0) {
        const { before, after } = arrowsOf(data, view.picked);
        for (const call of before.slice(0, ARROWS)) arrow(draw, call, view.picked, begins, 1);
        for (const call of after.slice(0, ARROWS)) arrow(draw, view.picked, call, begins, 1);
      }
      draw.restore();
    }

    function arrow(draw, from, to, begins, alpha) {
      const x1 = toX(begins[from]), x2 = toX(begins[to]), y1 = middleOf(from), y2 = middleOf(to);
      const bend = Math.min(60, Math.max(12, (x2 - x1) / 2));
      draw.globalAlpha = alpha; draw.strokeStyle = draw.fillStyle = colour("b"); draw.lineWidth = 1.25;
      draw.beginPath(); draw.moveTo(x1, y1); draw.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2); draw.stroke();
      draw.beginPath(); draw.moveTo(x2, y2); draw.lineTo(x2 - 6, y2 - 3); draw.lineTo(x2 - 6, y2 + 3); draw.fill();
      draw.globalAlpha = 1;
    }

    function outline(draw, { begins, ends }) {
      draw.strokeStyle = colour("ink"); draw.lineWidth = 2;
      for (const row of data.rows) {
        const x = toX(begins[view.picked]), wide = Math.max(5, (ends[view.picked] - begins[view.picked]) * k);
        if (!has(row, view.picked) || x + wide < left || x > width) continue;
        draw.strokeRect(Math.max(left, x) - 1.5, row.top + 0.5, Math.min(wide, width - x) + 3, row.tall - 1);
      }
    }

    return { paint, scale, gutter, forget: () => { colours = {}; } };
  }

  return { painter, height, MAP };
})();
