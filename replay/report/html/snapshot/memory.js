// The map of all memory that the window reaches, and what is known of the piece that is picked.
(() => {
  "use strict";

  const { element, button, switcher, stateOf, surface, style, grouped, size, fitted } = Replay;
  const SVG = "http://www.w3.org/2000/svg", HELP = "Arrow keys go from allocation to allocation, Escape lets go.";
  const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const share = (item) => (item.changed ? Math.min(1, item.changed / item.size) : 0);

  function build(figure, window) {
    const items = JSON.parse(figure.querySelector(".allocations").textContent);
    if (!items.length) return;
    figure.hidden = false;
    const state = stateOf(window), stage = figure.querySelector(".stage"), byId = new Map(items.map((item) => [item.id, item]));
    let mode = state.get("map") === "address" ? "address" : "size", picked = null, map = null, colours = {};
    const colour = (name) => (colours[name] ??= style(name));

    const bar = element("div", "tools", stage);
    const legend = element("span", "legend", bar);
    for (const [key, text] of [["changed", "changed by the window"], ["same", "as it was"], ["unknown", "not known"]]) {
      const entry = element("span", "", legend);
      element("i", "key " + key, entry);
      entry.append(text + " ");
    }
    const right = element("span", "right", bar);
    const press = switcher([["size", "By size"], ["address", "By address"]], "Order of the map", right, (value) => {
      mode = value;
      state.set("map", value === "address" ? value : "");
      place();
    });
    press(mode);
    const group = element("div", "canvas", stage);
    group.tabIndex = 0;
    group.setAttribute("role", "application");
    group.setAttribute("aria-label", `Map of ${grouped(items.length)} allocations. ${HELP}`);
    const picture = surface(group, 260, `Map of ${grouped(items.length)} allocations`, paint);
    picture.colours = () => { colours = {}; shown(); };
    const told = element("div", "told", stage);
    told.setAttribute("aria-live", "polite");

    function place() {
      const gutter = picture.width < 560 ? 0 : 118;
      const tall = Math.max(120, Math.min(300, 60 + items.length * 24));
      map = mode === "size" ? Layout.bySize(items, picture.width, tall) : Layout.byAddress(items, picture.width, gutter);
      map.width = picture.width; map.mode = mode;
      if (picture.height !== map.height) picture.resize(map.height);
      else picture.ask();
    }

    // -- the map
    function paint(draw, width, height) {
      if (!map || map.width !== width || map.mode !== mode) { queueMicrotask(place); }
      draw.fillStyle = colour("paper"); draw.fillRect(0, 0, width, height);
      if (!map) return;
      draw.textAlign = "left";
      map.starts.forEach((address, line) => {
        draw.fillStyle = colour("soft");
        if (address && width >= 560) draw.fillText("0x" + address, 0, line * Layout.LINE + 12);
      });
      for (const gap of map.gaps) {
        draw.fillStyle = colour("soft"); draw.textAlign = "center";
        draw.fillText("⋯", gap.x + gap.width / 2, gap.y + 12);
      }
      for (const box of map.boxes) paintBox(draw, box);
      if (picked) { paintPointers(draw); for (const box of map.boxes) if (box.item === picked) outline(draw, box, 2); }
    }

    function paintBox(draw, box) {
      const { item } = box, inset = box.width > 3 && box.height > 3 ? 0.5 : 0;
      const x = box.x + inset, y = box.y + inset, wide = box.width - 2 * inset, tall = box.height - 2 * inset;
      draw.fillStyle = colour(item.changed === null ? "paper" : "shade"); draw.fillRect(x, y, wide, tall);
      const part = share(item), up = part ? Math.max(3, tall * part) : 0;
      if (part) {
        draw.fillStyle = colour("a");
        draw.globalAlpha = 0.2; draw.fillRect(x, y + tall - up, wide, up); draw.globalAlpha = 1;
        draw.fillRect(x, y + tall - Math.min(3, tall), wide, Math.min(3, tall));
      }
      if (item.changed === null) hatch(draw, x, y, wide, tall);
      if (inset) {
        draw.strokeStyle = colour("line"); draw.lineWidth = 1;
        draw.strokeRect(x + 0.5, y + 0.5, wide - 1, tall - 1);
      }
      if (wide < 30 || tall < 16 || !box.first) return;
      draw.textAlign = "left"; draw.fillStyle = colour("ink");
      const name = item.name || item.kind, lines = [[`${item.id}`, name, item.sizeText].join("  ")];
      if (tall > 44) lines.splice(0, 1, `${item.id}  ${name}`, item.sizeText);
      lines.forEach((text, at) => {
        draw.fillText(fitted(draw, text, wide - 12), x + 6, y + (tall > 44 ? 14 : (tall - 3) / 2) + at * 16);
      });
    }

    function hatch(draw, x, y, wide, tall) {
      draw.save();
      draw.beginPath(); draw.rect(x, y, wide, tall); draw.clip();
      draw.strokeStyle = colour("line"); draw.lineWidth = 1; draw.beginPath();
      for (let at = -tall; at < wide; at += 7) { draw.moveTo(x + at, y + tall); draw.lineTo(x + at + tall, y); }
      draw.stroke(); draw.restore();
    }

    const middle = (item) => {
      const box = map.boxes.find((one) => one.item === item);
      return box && [box.x + box.width / 2, box.y + (mode === "size" ? box.height / 2 : 2)];
    };
    function paintPointers(draw) {
      const here = middle(picked);
      if (!here) return;
      for (const [edges, dash] of [[picked.to, []], [picked.from, [4, 3]]]) {
        for (const [id] of edges) {
          const other = byId.get(id), there = other && other !== picked && middle(other);
          if (!there) continue;
          const [from, to] = dash.length ? [there, here] : [here, there];
          draw.strokeStyle = draw.fillStyle = colour("b"); draw.lineWidth = 1.5; draw.setLineDash(dash);
          const bend = Math.max(20, Math.abs(to[1] - from[1]) / 2);
          draw.beginPath(); draw.moveTo(...from);
          draw.bezierCurveTo(from[0], from[1] - bend, to[0], to[1] - bend, to[0], to[1]); draw.stroke();
          draw.setLineDash([]);
          draw.beginPath(); draw.arc(to[0], to[1], 3, 0, 7); draw.fill();
        }
      }
    }
    function outline(draw, box, width) {
      draw.strokeStyle = colour("ink"); draw.lineWidth = width;
      draw.strokeRect(box.x + 1, box.y + 1, Math.max(2, box.width - 2), Math.max(2, box.height - 2));
    }

    // -- what is picked
    function pick(item) {
      picked = item;
      state.set("memory", item ? item.id : "");
      shown();
      picture.ask();
      for (const row of document.querySelectorAll(`[data-window="${window}"] .allocations .pick`)) {
        row.setAttribute("aria-pressed", String(item !== null && row.textContent === String(item.id)));
      }
    }

    function shown() {
      told.replaceChildren();
      if (!picked) return;
      const item = picked, panel = element("div", "allocation", told);
      const where = `${item.kind}${item.device ? ` on device ${item.device}` : ""}`;
      element("h3", "", panel, `Allocation ${item.id}: ${item.name || where}, ${item.sizeText}`);
      const list = element("dl", "facts", panel);
      const fact = (name) => { element("dt", "", list, name); return element("dd", "", list); };
      fact("where").textContent = `${where}, ${item.kind === "array" ? "handle" : "address"} 0x${item.address}`;
      if (item.by) fact("made by").textContent = item.by;
      const [born, died] = item.lived;
      if (born !== null || died !== null) {
        fact("lives").textContent = [born !== null ? `from call ${grouped(born)}` : "", died !== null ? `to call ${grouped(died)}` : ""]
          .filter(Boolean).join(" ");
      }
      fact("changed").textContent = item.changed === null ? "not known: it was captured at one moment or at none"
        : item.changed ? `${item.changedText} of ${item.sizeText}, counted in pieces of 256 KiB` : "no: the window left it as it was";
      fact("elements").textContent = item.types.length
        ? item.types.map(([, , type, source, origin]) => `${type} (${[source, origin].filter(Boolean).join(": ")})`).join("; ")
        : "not known";
      fact("used by").textContent = item.uses.length
        ? item.uses.map(([how, name, times]) => `${how}: ${name}, ${grouped(times)}×`).join("; ")
        : "no launch is given a pointer to it; it may be reached through other memory";
      pointers(fact, "points to", item.to);
      pointers(fact, "pointed to by", item.from);
      if (item.sample) contents(panel, item, item.sample);
      else if (item.whyNot) element("p", "quiet", panel, item.whyNot);
    }

    function pointers(fact, name, edges) {
      if (!edges.length) return;
      const place = fact(name);
      edges.forEach(([id, words]) => {
        const other = byId.get(id);
        const text = `${id}${id === picked.id ? " (itself)" : ""}`;
        button(text, `Allocation ${id}`, place, () => other && pick(other));
        place.append(` ${grouped(words)} ${words === 1 ? "word" : "words"} `);
      });
    }

    // -- contents
    function contents(panel, item, sample) {
      const [read, all] = sample.pieces;
      const when = sample.moment === "after" ? "After the window" : item.changed === null ? "As it was captured" : "Before the window";
      const part = read < all ? `; ${grouped(read)} of ${grouped(all)} pieces were looked at, ${sample.read} of ${item.sizeText}` : "";
      const numbers = `${grouped(sample.count)} elements of ${sample.element}`;
      element("p", "quiet", panel, `${when}: ${numbers}${sample.known ? "" : " (" + sample.origin + ")"}${part}.`);
      const odd = [[sample.zeros, "zero"], [sample.nans, "NaN"], [sample.infinities, "infinite"]]
        .filter(([many]) => many).map(([many, what]) => `${grouped(many)} ${what}`);
      const [least, greatest, mean] = sample.extremes;
      element("p", "facts", panel, `From ${least} to ${greatest}, mean ${mean}` + (odd.length ? `; ${odd.join(", ")}` : ""));
      const both = element("div", "contents", panel);
      histogram(both, sample);
      heat(both, "Mean along the memory", sample, bytesOf(sample.cells), sample.cellLimits);
      if (sample.changed && item.changed) heat(both, "What the window changed", sample, bytesOf(sample.changed), ["nothing", "all of it"]);
    }

    function histogram(panel, sample) {
      const figure = element("figure", "", panel), high = Math.max(1, ...sample.bins), count = sample.bins.length;
      element("figcaption", "", figure, "Values");
      const drawing = document.createElementNS(SVG, "svg");
      drawing.setAttribute("viewBox", "0 0 240 90");
      drawing.setAttribute("role", "img");
      drawing.setAttribute("aria-label", `Histogram of values from ${sample.limits[0]} to ${sample.limits[1]}`);
      sample.bins.forEach((many, at) => {
        if (!many) return;
        const bar = document.createElementNS(SVG, "rect"), tall = Math.max(1, many / high * 88);
        const made = { x: at * 240 / count, y: 90 - tall, width: Math.max(0.5, 240 / count - 0.6), height: tall };
        for (const [name, value] of Object.entries(made)) bar.setAttribute(name, value.toFixed(2));
        drawing.append(bar);
      });
      figure.append(drawing);
      ends(figure, sample.limits);
      const [below, above] = sample.outside;
      if (below || above) element("p", "quiet", figure, `outside: ${grouped(below)} below, ${grouped(above)} above`);
    }

    function ends(figure, limits) {
      const line = element("div", "ends", figure);
      element("span", "", line, limits[0]);
      element("span", "", line, limits[1]);
    }

    function heat(panel, name, sample, cells, limits) {
      const figure = element("figure", "", panel);
      element("figcaption", "", figure, name);
      const { rows, columns } = sample, canvas = element("canvas", "heatmap", figure);
      canvas.width = columns; canvas.height = rows;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${name}: ${rows} rows of ${columns} stretches, from ${limits[0]} to ${limits[1]}`);
      const draw = canvas.getContext("2d"), image = draw.createImageData(columns, rows);
      const [from, to] = [rgb(colour("shade")), rgb(colour("a"))], bad = rgb(colour("bad")), whole = name.startsWith("What");
      cells.forEach((value, at) => {
        const part = whole ? value / 255 : (value - 1) / 254;
        const ink = value || whole ? from.map((one, of) => one + (to[of] - one) * part) : bad;
        image.data.set([...ink, 255], at * 4);
      });
      draw.putImageData(image, 0, 0);
      ends(figure, limits);
      const step = sample.pieces[0] < sample.pieces[1] ? "each row is a piece that was looked at" : `rows begin at ${sample.offsets.slice(0, 3).join(", ")}${rows > 3 ? ", …" : ""}`;
      element("p", "quiet", figure, step);
    }
    const rgb = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

    // -- pointer, keyboard, table, URL
    const boxAt = (x, y) => map?.boxes.find((box) =>
      x >= box.x && x < Math.max(box.x + 4, box.x + box.width) && y >= box.y && y < box.y + box.height);
    picture.canvas.addEventListener("click", (event) => pick(boxAt(event.offsetX, event.offsetY)?.item ?? null));
    picture.canvas.addEventListener("pointermove", (event) => {
      const item = boxAt(event.offsetX, event.offsetY)?.item;
      picture.canvas.title = item ? `${item.id}: ${item.name || item.kind}, ${item.sizeText}` : "";
    });
    group.addEventListener("keydown", (event) => {
      const order = mode === "size" ? [...new Set(map.boxes.map((box) => box.item))] : items, at = order.indexOf(picked);
      const keys = {
        ArrowRight: () => pick(order[Math.min(order.length - 1, at + 1)]), ArrowDown: () => pick(order[Math.min(order.length - 1, at + 1)]),
        ArrowLeft: () => pick(order[Math.max(0, at - 1)]), ArrowUp: () => pick(order[Math.max(0, at - 1)]),
        Home: () => pick(order[0]), End: () => pick(order[order.length - 1]), Escape: () => pick(null),
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    for (const head of document.querySelectorAll(`[data-window="${window}"] .allocations tbody th`)) {
      const item = byId.get(Number(head.textContent));
      if (!item) continue;
      head.textContent = "";
      const made = button(String(item.id), `Show allocation ${item.id}`, head, () => { pick(item); figure.scrollIntoView(); });
      made.className = "pick";
    }
    picture.fit();
    place();
    const asked = byId.get(Number(state.get("memory") ?? NaN));
    if (asked) pick(asked);
  }

  for (const figure of document.querySelectorAll("figure.memory")) {
    build(figure, Number(figure.closest(".snapshot").dataset.window));
  }
})();
