// The calls of a window as columns, and where each of them is on an axis. Draws nothing.
const Calls = (() => {
  "use strict";

  const LAUNCH = 0, COPY = 1, FILL = 2, ORDER = 3, WAIT = 4;

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
    summed(columns.gpu[0]).forEach((at, row) => { gpu[at] = columns.gpu[1][row]; });
    const data = {
      ...texts, count, gpu, which: Uint32Array.from(columns.which), numbers: summed(columns.numbers),
      begins: summed(columns.begins), durations: Float64Array.from(columns.durations),
      from: summed(columns.from), to: summed(columns.to),
    };
    let least = Infinity, greatest = 0;
    for (const time of gpu) if (time >= 0) { least = Math.min(least, time); greatest = Math.max(greatest, time); }
    // At least a factor of four from the least to the greatest, or the smallest noise would look like mountains.
    data.gpuScale = greatest > 0
      ? [Math.log(Math.max(1, Math.min(least, greatest / 4))), Math.log(Math.max(4, greatest))] : null;
    data.share = Float32Array.from(data.which, (which, call) => heightOf(data, texts.kinds[which][1], gpu[call]));
    const held = texts.rows.map(() => []);
    for (let at = 0; at < count; at++) {
      const kind = texts.kinds[data.which[at]];
      held[kind[2]].push(at);
      if (kind[3] >= 0 && kind[1] !== WAIT) held[kind[3]].push(at);
    }
    data.rows = texts.rows.map(([sort, name, handle], row) => ({ sort, name, handle, calls: Uint32Array.from(held[row]) }))
      .filter((row) => row.calls.length);
    return data;
  }

  // How much of the height of its row a call takes.
  function heightOf({ gpuScale }, sort, time) {
    if (sort !== LAUNCH) return sort === ORDER ? 0.16 : 0.3;
    if (!gpuScale || time < 0) return 0.35;
    return 0.3 + 0.68 * (Math.log(Math.max(1, time)) - gpuScale[0]) / (gpuScale[1] - gpuScale[0]);
  }

  // Begin and end of each call, and the calls of each row in the order of the axis.
  function placed(data, axis) {
    const begins = new Float64Array(data.count), ends = new Float64Array(data.count);
    let whole = 0;
    for (let at = 0; at < data.count; at++) {
      begins[at] = axis === "time" ? data.begins[at] : at;
      ends[at] = axis === "time" ? data.begins[at] + data.durations[at] : at + 1;
      whole = Math.max(whole, ends[at]);
    }
    const rows = data.rows.map((row) => {
      const calls = row.calls.slice();
      let ordered = true;
      for (let at = 1; at < calls.length && ordered; at++) ordered = begins[calls[at]] >= begins[calls[at - 1]];
      if (!ordered) calls.sort((one, other) => begins[one] - begins[other]);
      return { calls, begins: Float64Array.from(calls, (at) => begins[at]) };
    });
    return { begins, ends, rows, whole: whole || 1 };
  }

  const has = (row, call) => row.calls[Replay.place(row.calls, call)] === call;

  // What a call waits for, and what waits for it.
  function arrowsOf(data, call) {
    const before = [], after = [];
    for (let at = 0; at < data.to.length; at++) {
      if (data.to[at] === call) before.push(data.from[at]);
      if (data.from[at] === call) after.push(data.to[at]);
    }
    return { before, after };
  }

  return { read, placed, has, arrowsOf, LAUNCH, COPY, FILL, ORDER, WAIT };
})();
