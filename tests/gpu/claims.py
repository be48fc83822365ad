"""Asks the driver about claims of docs/ground-truth.md that one short program can settle.

usage: claims.py [GT-NAME ...]

Prints one JSON line for each: its name, whether it holds on this driver (null: the answers do not say it), the answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # which Python leaves out with PYTHONSAFEPATH

from questions import kernels, memory  # noqa: E402
from questions.driver import apart  # noqa: E402

CLAIMS: dict[str, Callable[[], dict[str, Any]]] = {**memory.CLAIMS, **kernels.CLAIMS}


def main() -> int:
    """Ask, print, and return an exit status."""
    names = sys.argv[1:] or list(CLAIMS)
    for name in names:
        found = apart(CLAIMS[name])
        if not isinstance(found, dict):
            found = {"holds": None, "answers": found}
        print(json.dumps({"claim": name, **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
