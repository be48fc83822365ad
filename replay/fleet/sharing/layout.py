"""Names of files and folders of a night, and how large a file of them may be."""

from __future__ import annotations

from replay.results.store import MAXIMUM_FILE_BYTES

PLAN, MATRIX = "plan.json", "matrix.toml"
KEPT = ("units", "results", "again")  # a file in them never changes
CHANGING = ("attempts", "excluded", "drained", "devices", "canaries")
LATER = ("leases", "causes")  # change, too, and are made when one is wanted
RESULT_ENDINGS = (
    ".rres",
    ".rpack",
)  # of a history, which may lie beside nights; such a file never changes either
BASELINE = "baseline.json"
MAXIMUM_BYTES = {
    PLAN: 1 << 30, "canaries": 256 << 20, "results": MAXIMUM_FILE_BYTES, "rres": MAXIMUM_FILE_BYTES, "rpack": 1 << 30,
    BASELINE: 64 << 20,
}  # fmt: skip
MAXIMUM_OTHER_BYTES = 16 << 20
