// Turns each figure that carries data into plots that can be zoomed and asked for values. Without this script the
// drawing in the figure stays. Names of strangers are set only as text, never as markup.
(() => {
  "use strict";

  const HEIGHT_FIRST = 220, HEIGHT_OTHER = 130, AXIS = 76;
  // Below the first time of each day, its date
  const DAY = ["\n{YYYY}-{MM}-{DD}", null, "\n{YYYY}-{MM}-{DD}", null, null, null, 1];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const shown = (value) => String(Number(value.toPrecision(5)));
  const live = [];

  function element(kind, name, parent) {
    const made = document.createElement(kind);
    made.className = name;
    parent.append(made);
    return made;
  }

  // Room on both sides, so that the first and the last point are whole: half a place, or of an axis of time a part.
  const margin = (xs, time) => (time ? (xs[xs.length - 1] - xs[0]) * 0.02 || 1 : 0.5);
  const ends = (xs, time) => [xs[0] - margin(xs, time), xs[xs.length - 1] + margin(xs, time)];
  const whole = (plot) => ends(plot.data[0], plot.scales.x.time);

  function heights(level, curves) {
    return (plot, low, high) => {
      if (low == null) return [0, 1];
      const { min, max } = plot.scales.x;
      curves.forEach((curve, at) => curve.ranges.forEach((ends, place) => {
        const x = plot.data[0][place];
        if (!ends || (min != null && (x < min || x > max)) || !plot.series[at + 1].show) return;
        low = Math.min(low, ends[0]); high = Math.max(high, ends[1]);
      }));
      if (level != null) { low = Math.min(low, level); high = Math.max(high, level); }
      // At least 4 % of height, or the smallest noise would look like mountains.
      const margin = Math.max((high - low) * 0.08, Math.abs(high) * 0.02, 1e-9);
      return [low - margin, high + margin];
    };
  }

  function lines(data, panel) {
    return (plot) => {
      const { left, top, width, height } = plot.bbox, draw = plot.ctx;
      draw.save();
      draw.beginPath(); draw.rect(left, top, width, height); draw.clip();
      draw.lineWidth = 1.5 * devicePixelRatio;
      panel.curves.forEach((curve, at) => {
        if (!plot.series[at + 1].show) return;
        draw.strokeStyle = style(curve.style); draw.globalAlpha = 0.35; draw.lineWidth = 4 * devicePixelRatio;
        curve.ranges.forEach((ends, place) => {
          if (!ends) return;
          const x = plot.valToPos(data.xs[place], "x", true);
          draw.beginPath(); draw.moveTo(x, plot.valToPos(ends[0], "y", true)); draw.lineTo(x, plot.valToPos(ends[1], "y", true));
          draw.stroke();
        });
        draw.globalAlpha = 1; draw.lineWidth = 1.5 * devicePixelRatio;
      });
      for (const place of data.marks) {
        const x = plot.valToPos(place, "x", true);
        draw.strokeStyle = style("bad"); draw.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        draw.beginPath(); draw.moveTo(x, top); draw.lineTo(x, top + height); draw.stroke();
      }
      draw.strokeStyle = draw.fillStyle = style("unsure"); draw.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
      draw.font = `${11 * devicePixelRatio}px system-ui, sans-serif`; draw.textAlign = "right";
      for (const step of data.steps) {
        const x = plot.valToPos(step.x, "x", true);
        draw.beginPath(); draw.moveTo(x, top); draw.lineTo(x, top + height); draw.stroke();
        draw.fillText(step.text, x - 3 * devicePixelRatio, top + 11 * devicePixelRatio);
      }
      if (panel.level != null) {
        const y = plot.valToPos(panel.level, "y", true);
        draw.strokeStyle = style("good"); draw.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
        draw.beginPath(); draw.moveTo(left, y); draw.lineTo(left + width, y); draw.stroke();
      }
      draw.restore();
    };
  }

  function panelPlot(data, panel, first, holder, together) {
    const axis = { stroke: () => style("soft"), grid: { stroke: () => style("line"), width: 1 },
                   ticks: { stroke: () => style("line"), width: 1 } };
    const options = {
      width: Math.max(200, holder.clientWidth),
      height: first ? HEIGHT_FIRST : HEIGHT_OTHER,
      padding: data.time ? [null, 36, null, null] : undefined,
      cursor: { sync: { key: together.key }, drag: { x: true, y: false }, points: { size: 9 } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: { x: { time: data.time, range: (plot, low, high) => {
                       const [first, last] = ends(data.xs, data.time), room = margin(data.xs, data.time);
                       return low == null || (low <= first + room && high >= last - room) ? [first, last] : [low, high];
                     } },
                y: { range: heights(panel.level, panel.curves) } },
      series: [
        { label: data.x, value: (plot, value) =>
          value == null ? "–" : [...(data.time ? [] : [value]), ...data.titles.slice(data.xs.indexOf(value)).slice(0, 1)].join(", ") },
        ...panel.curves.map((curve) => ({
          label: curve.name, spanGaps: false, width: curve.joined ? 1.5 : 0,
          stroke: () => style(curve.style), dash: curve.style === "b" ? [6, 4] : undefined,
          points: { show: true, size: 6, fill: () => style(curve.style), stroke: () => style(curve.style) },
          paths: curve.joined ? undefined : () => null,
          value: (plot, value) => (value == null ? "–" : shown(value) + " " + panel.unit),
        })),
      ],
      axes: [
        data.time ? { ...axis, size: 44, space: 90, values: [
          [31536000, "{YYYY}", null, null, null, null, null, null, 1],
          [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
          [60, "{HH}:{mm}", ...DAY], [1, "{HH}:{mm}:{ss}", ...DAY], [0.001, "{HH}:{mm}:{ss}.{fff}", ...DAY]] } :
        { ...axis, size: 34, space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 1e5, 1e6] },
        { ...axis, size: AXIS, space: 32, values: (plot, places) => places.map((place) => shown(place) + " " + panel.unit) },
      ],
      hooks: {
        draw: [lines(data, panel)],
        setSeries: [(plot, at) => {
          const row = plot.root.querySelectorAll(".u-series")[at];
          if (row) row.querySelector("th").setAttribute("aria-checked", String(plot.series[at].show));
        }],
      },
    };
    const plot = new uPlot(options, [data.xs, ...panel.curves.map((curve) => curve.values)], holder);
    plot.root.tabIndex = 0;
    plot.root.setAttribute("role", "group");
    plot.root.setAttribute("aria-label", panel.name + ". Arrow keys move the cursor, + and - zoom, Escape shows all.");
    plot.root.querySelectorAll(".u-series").forEach((row, at) => {
      if (at === 0) return;
      const name = row.querySelector("th");
      name.tabIndex = 0;
      name.setAttribute("role", "switch");
      name.setAttribute("aria-checked", "true");
      name.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault(); event.stopPropagation();
        plot.setSeries(at, { show: !plot.series[at].show });
      });
    });
    plot.root.addEventListener("keydown", (event) => key(event, plot, data, together));
    return plot;
  }

  function key(event, plot, data, together) {
    const last = data.xs.length - 1, now = plot.cursor.idx;
    const places = { ArrowLeft: now == null ? last : Math.max(0, now - 1),
                     ArrowRight: now == null ? 0 : Math.min(last, now + 1), Home: 0, End: last };
    if (event.key in places) {
      const x = data.xs[places[event.key]], { min, max } = plot.scales.x;
      if (x < min || x > max) together.zoom(x - (max - min) / 2, x + (max - min) / 2);
      plot.setCursor({ left: plot.valToPos(x, "x"), top: plot.over.clientHeight / 2 });
    } else if (event.key === "+") together.scale(0.5, plot);
    else if (event.key === "-") together.scale(2, plot);
    else if (event.key === "Escape") together.zoom(...whole(plot));
    else return;
    event.preventDefault();
  }

  // All panels of a figure show the same stretch; that of a drag reaches all of them with the cursor that they share.
  function companions(key) {
    const plots = [];
    const zoom = (low, high) => plots.forEach((plot) => plot.setScale("x", { min: low, max: high }));
    return {
      key, plots, zoom,
      scale(factor, plot) {
        const { min, max } = plot.scales.x, [first, last] = whole(plot);
        const at = plot.cursor.idx == null ? (min + max) / 2 : plot.data[0][plot.cursor.idx];
        const half = Math.max(1, ((max - min) / 2) * factor);
        if (half * 2 >= last - first) zoom(first, last);
        else zoom(Math.max(first, at - half), Math.min(last, at + half));
      },
    };
  }

  function button(text, label, parent, act) {
    const made = element("button", "", parent);
    made.type = "button"; made.textContent = text; made.title = label; made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
  }

  function build(figure, number) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const holder = element("div", "plots", figure);
    figure.classList.add("live");
    const together = companions("figure" + number);
    try {
      data.panels.forEach((panel, at) => {
        if (data.panels.length > 1) element("div", "panel", holder).textContent = panel.name;
        together.plots.push(panelPlot(data, panel, at === 0, holder, together));
      });
      const tools = element("div", "tools", holder);
      button("+", "Zoom in", tools, () => together.scale(0.5, together.plots[0]));
      button("−", "Zoom out", tools, () => together.scale(2, together.plots[0]));
      button("all", "Show all", tools, () => together.zoom(...whole(together.plots[0])));
      element("span", "hint", tools).textContent = "Drag to zoom, double click for all; click a name to hide it.";
    } catch (error) {
      holder.remove();
      figure.classList.remove("live");
      throw error;
    }
    const size = new ResizeObserver(() => {
      const width = Math.max(200, holder.clientWidth);
      for (const plot of together.plots) if (plot.width !== width) plot.setSize({ width, height: plot.height });
    });
    size.observe(holder);
    live.push({ figure, number, holder, together, size });
  }

  // Those far below, or in what is folded, are made when they come into sight.
  const figures = [...document.querySelectorAll("figure.plot")];
  const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      sight.unobserve(entry.target);
      build(entry.target, figures.indexOf(entry.target));
    }
  }, { rootMargin: "400px" });
  figures.forEach((figure) => sight.observe(figure));

  Theme.changed(() => {
    for (const { figure, number, holder, together, size } of live.splice(0)) {
      size.disconnect();
      together.plots.forEach((plot) => plot.destroy());
      holder.remove();
      build(figure, number);
    }
  });
})();
