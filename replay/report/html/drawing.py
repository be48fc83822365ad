"""Drawings as wide as their place: places across are shares of the width, down they are pixels. So text keeps its size
on a telephone and on a wide screen. Only numbers and escaped text go in; the result is markup."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup


class Drawing:
    """One drawing. label: what it shows, for who cannot see it. across: from 0 (left) to 1 (right)."""

    def __init__(self, height: int, label: str) -> None:
        self._height = height
        self._parts = [
            Markup('<svg class="fluid" width="100%" height="{}" role="img" aria-label="{}">').format(
                height, label
            )
        ]

    def line(self, style: str, x1: float, y1: float, x2: float, y2: float, title: str = "") -> None:
        """style: classes of page.css and drawing.css."""
        self._parts.append(
            Markup('<line class="{}" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}">{}</line>').format(
                style, _share(x1), y1, _share(x2), y2, _title(title)
            )
        )

    def text(self, x: float, y: float, text: str, anchor: str = "middle", style: str = "tick") -> None:
        """anchor: start, middle or end; near an edge it turns away from it."""
        if anchor == "middle":
            anchor = "start" if x < 0.06 else "end" if x > 0.94 else anchor
        self._parts.append(
            Markup('<text class="{}" x="{}" y="{:.1f}" text-anchor="{}">{}</text>').format(
                style, _share(x), y, anchor, text
            )
        )

    def name(self, width: float, y: float, text: str, x: float = 0.0, title: str = "") -> None:
        """Words from `x` on, in a line from `y` on; what has no room in the width ends in dots. title: by default the
        words."""
        self._parts.append(
            Markup(
                '<foreignObject x="{}" y="{:.1f}" width="{}" height="18"><div class="name" title="{}">{}</div>'
                "</foreignObject>"
            ).format(_share(x), y, _share(width), title or text, text)
        )

    def dot(self, style: str, x: float, y: float, title: str = "", radius: float = 4) -> None:
        """A round mark."""
        self._parts.append(
            Markup('<circle class="{}" cx="{}" cy="{:.1f}" r="{:.1f}">{}</circle>').format(
                style, _share(x), y, radius, _title(title)
            )
        )

    def box(self, style: str, x1: float, y1: float, x2: float, y2: float, title: str = "") -> None:
        """A filled rectangle."""
        self._parts.append(
            Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}">{}</rect>').format(
                style, _share(x1), y1, _share(max(0.0, x2 - x1)), max(0.0, y2 - y1), _title(title)
            )
        )

    def curve(self, style: str, points: Sequence[tuple[float, float]], filled: bool = False) -> None:
        """A line through points, or the area that they enclose."""
        path = " ".join(f"{1000 * x:.1f},{y:.1f}" for x, y in points)
        kind = "polygon" if filled else "polyline"
        self._parts.append(
            Markup(
                '<svg class="fluid" width="100%" height="{0}" viewBox="0 0 1000 {0}" preserveAspectRatio="none">'
                '<{1} class="{2}" points="{3}" vector-effect="non-scaling-stroke"/></svg>'
            ).format(self._height, kind, style, path)
        )

    def markup(self) -> Markup:
        """The finished drawing."""
        return Markup("").join([*self._parts, Markup("</svg>")])


class Scale:
    """Values to shares of a width, with a margin on both sides."""

    def __init__(self, low: float, high: float, margin: float = 0.04) -> None:
        room = (high - low) * margin or abs(high) * 0.02 or 1.0
        self.low, self.high = low - room, high + room

    def __call__(self, value: float) -> float:
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def _share(value: float) -> str:
    return f"{100 * value:.3f}%"


def _title(text: str) -> Markup:
    return Markup("<title>{}</title>").format(text) if text else Markup("")
