"""Names of files and folders of a night, and how large a file of them may be."""

from __future__ import annotations

from replay.results.store import MAXIMUM_FILE_BYTES

PLAN, MATRIX = "plan.json", "matrix.toml"
KEPT = ("units", "results", "again")  # a file in them never changes
CHANGING = ("attempts", "excluded", "drained", "devices", "canaries")
LATER = ("leases", "causes")  # change, too, and are made when one is wanted
MAXIMUM_BYTES = {PLAN: 1 << 30, "canaries": 256 << 20, "results": MAXIMUM_FILE_BYTES}
MAXIMUM_OTHER_BYTES = 16 << 20
