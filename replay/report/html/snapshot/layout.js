// Where allocations are on the map: by address in lines, with gaps folded, or as areas by size. Pure.
const Layout = (() => {
  "use strict";

  const LINE = 30, LEAST = 5, FOLDED = 16, BREAK = 2 ** 21;

  // Lines of addresses. Every allocation has at least LEAST pixels; what is nearer than BREAK shares a stretch.
  function byAddress(items, width, gutter) {
    const room = width - gutter, total = items.reduce((sum, item) => sum + item.size, 0) || 1;
    const lines = Math.max(1, Math.min(12, Math.ceil(items.length / 6)));
    const scale = room * lines * 0.8 / total, boxes = [], gaps = [], starts = [];
    let x = 0, line = 0, end = null;
    const wrap = () => { x = 0; line++; };
    for (const item of items) {
      const begin = BigInt("0x" + item.address), gap = end === null ? 0 : Number(begin - end);
      if (end !== null && gap > 0) {
        const wide = gap > BREAK ? FOLDED : Math.min(FOLDED, gap * scale);
        if (gap > BREAK) {
          if (x + wide > room) wrap();
          gaps.push({ x: gutter + x, y: line * LINE, width: wide, bytes: gap });
        }
        x += wide;
      }
      let left = Math.max(LEAST, item.size * scale), first = true;
      while (left > 0.01) {
        if (x >= room - 0.5) wrap();
        if (x === 0) starts[line] = item.address;
        const part = Math.min(left, room - x);
        boxes.push({ item, x: gutter + x, y: line * LINE, width: part, height: LINE - 6, first, share: part });
        x += part; left -= part; first = false;
      }
      const until = begin + BigInt(item.size);
      end = end === null || until > end ? until : end;
    }
    return { boxes, gaps, starts, height: (line + 1) * LINE };
  }

  // "Squarified treemaps" (Bruls, Huizing, van Wijk, 2000).
  function bySize(items, width, height) {
    const ordered = items.filter((item) => item.size > 0).sort((one, other) => other.size - one.size);
    // What is far smaller than all others can be seen, too.
    const least = ordered.reduce((sum, item) => sum + item.size, 0) / Math.max(250, 4 * ordered.length);
    const sized = (item) => Math.max(item.size, least);
    const total = ordered.reduce((sum, item) => sum + sized(item), 0) || 1, boxes = [];
    let x = 0, y = 0, wide = width, tall = height, at = 0;
    const area = (item) => sized(item) / total * width * height;
    while (at < ordered.length && wide > 0.5 && tall > 0.5) {
      const side = Math.min(wide, tall);
      let sum = 0, worst = Infinity, until = at;
      while (until < ordered.length) {
        const next = sum + area(ordered[until]), large = area(ordered[at]), small = area(ordered[until]);
        const ratio = Math.max(side * side * large / (next * next), next * next / (side * side * small));
        if (ratio > worst) break;
        worst = ratio; sum = next; until++;
      }
      const thick = sum / side;
      let along = 0;
      for (const item of ordered.slice(at, until)) {
        const long = area(item) / thick;
        boxes.push(wide >= tall
          ? { item, x, y: y + along, width: thick, height: long, first: true }
          : { item, x: x + along, y, width: long, height: thick, first: true });
        along += long;
      }
      if (wide >= tall) { x += thick; wide -= thick; } else { y += thick; tall -= thick; }
      at = until;
    }
    return { boxes, gaps: [], starts: [], height };
  }

  return { byAddress, bySize, LINE };
})();
