"""What a benchmark reached, its target, and what the figure can be held against: one table for all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """name: what was measured, with its unit. limit: what nothing can be better than, or a peer, measured in the same
    run, in words; "" when there is none. at_most: a smaller figure is better."""

    name: str
    reached: float
    target: float
    limit: str = ""
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.reached <= self.target if self.at_most else self.reached >= self.target


def finish(benchmark: str, figures: Sequence[Figure], output: Path | None, **details: Any) -> int:
    """Print the table, write it with the details to `output`, and return an exit status: 1 when a target is missed."""
    print("\n" + table(figures))
    if output is not None:
        document = {"benchmark": benchmark, "figures": [asdict(figure) for figure in figures], **details}
        output.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(figure.met for figure in figures) else 1


def table(figures: Sequence[Figure], verdicts: Sequence[str] = ()) -> str:
    """A line for each figure. verdicts: a last column, when there are any."""
    width = max((len(figure.name) for figure in figures), default=0)
    lines = [f"{'':{width}}{'reached':>12}{'target':>14}"]
    for number, figure in enumerate(figures):
        target = ("at most " if figure.at_most else "at least ") + f"{figure.target:,.5g}"
        notes = ["" if figure.met else "missed", *verdicts[number : number + 1], figure.limit]
        line = f"{figure.name:{width}}{figure.reached:12,.4g}{target:>19}  {'; '.join(filter(None, notes))}"
        lines.append(line.rstrip())
    return "\n".join(lines)
