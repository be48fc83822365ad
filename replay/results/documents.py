"""Every JSON document that `replay` writes, declared once: its schema, the type that it is made of, and who writes it.

`replay.results.json` writes them, `docs/schemas/generate.py` makes the JSON Schema files of them, and
docs/machine-readable.md lists them. The number in a schema changes when a field changes its meaning or goes away;
fields that are added do not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Document:
    """One kind of document. schema: as its field `schema` has it.

    model: "module:Class" of the dataclass whose fields it has, or with `items` of each member of the list of that name.
    written_by: command or file. about: one line. private: it is passed on, so nothing of the user's that
    `replay.privacy` knows is kept in it.
    """

    schema: str
    model: str
    written_by: str
    about: str
    items: str = ""
    private: bool = False

    def model_type(self) -> type:
        """The dataclass; its module is imported here, not before."""
        module, _, name = self.model.partition(":")
        found = getattr(import_module(module), name)
        assert isinstance(found, type)
        return found


RUN = Document(
    "replay.run/1",
    "replay.results.schema:RunResult",
    "run --json",
    "One replay: outputs, times, placement.",
    private=True,
)
RUN_WINDOWS = Document(
    "replay.run.windows/1",
    "replay.results.schema:WindowResult",
    "run --json, several windows",
    "A replay of each window of a snapshot.",
    items="windows",
    private=True,
)
RUN_VARIANT = Document(
    "replay.run.variant/1",
    "replay.results.schema:VariantFacts",
    "run --json, exit code 3",
    "A variant that was built, and that this driver cannot execute.",
    private=True,
)
PREFLIGHT = Document(
    "replay.run.preflight/1",
    "replay.results.preflight:Preflight",
    "run --dry-run --json",
    "What a snapshot asks of a driver and device, and what there is.",
)
PREFLIGHT_WINDOWS = Document(
    "replay.run.preflight.windows/1",
    "replay.results.preflight:Preflight",
    "run --dry-run --json, several windows",
    "The same for each window of a snapshot.",
    items="windows",
)
OUTPUTS = Document(
    "replay.outputs/1",
    "replay.results.files:OutputsManifest",
    "run --save-outputs: manifest.json",
    "What the files with outputs are.",
)
COMPARISON = Document(
    "replay.comparison/1",
    "replay.results.comparison:Comparison",
    "compare --json, compare -o",
    "Two sides, row by row, with the rounds.",
    private=True,
)
BISECTION = Document(
    "replay.bisection/1",
    "replay.results.bisection:Bisection",
    "bisect --json, bisect -o",
    "Candidates, and the first bad one.",
    private=True,
)
CHECK = Document(
    "replay.check/1",
    "replay.results.check:Check",
    "check --json",
    "The cases of a nightly gate.",
    private=True,
)
HISTORY = Document(
    "replay.history/1",
    "replay.history.series:HistoryView",
    "history --json",
    "Results over time, and where their level changed.",
)
BASELINE = Document(
    "replay.baseline/1",
    "replay.history.baseline:Baseline",
    "baseline --json; baseline.json",
    "The accepted time of each series.",
)
EXPLANATION = Document(
    "replay.explanation/1",
    "replay.results.explanation:ExplanationPrinted",
    "explain --json",
    "The evidence of results, in sentences.",
    private=True,
)
REPORT = Document(
    "replay.report/1",
    "replay.results.files:ReportPrinted",
    "report --json",
    "The files that a report was made into.",
)
DOCTOR = Document(
    "replay.doctor/1",
    "replay.doctor.findings:Examination",
    "doctor --json",
    "Problems of a machine, and cures.",
)
CAPTURE = Document(
    "replay.capture/1",
    "replay.results.captured:CapturePrinted",
    "capture --json, last line",
    "What became of a capture.",
)
LAUNCHES = Document(
    "replay.launches/1",
    "replay.results.captured:LaunchesPrinted",
    "capture --list --json, last line",
    "The launches of an application.",
)
PACK = Document(
    "replay.pack/1", "replay.results.captured:PackPrinted", "pack --json", "Snapshots of a raw capture."
)
EXTRACT = Document(
    "replay.extract/1",
    "replay.inspection.listed:ExtractPrinted",
    "extract --json",
    "The file that was cut out.",
)
INFO = Document(
    "replay.info/1", "replay.inspection.listed:InfoPrinted", "info --json", "What is in a snapshot."
)
VERIFY = Document(
    "replay.verify/1",
    "replay.inspection.listed:VerifyPrinted",
    "verify --json",
    "Whether a snapshot is whole.",
)
DUMP = Document(
    "replay.dump/1",
    "replay.inspection.dump:DumpResult",
    "dump --json; manifest.json",
    "The files that hold what was in a snapshot.",
)
PARAMETERS = Document(
    "replay.parameters/1",
    "replay.results.files:DumpedLaunch",
    "dump: parameters.json",
    "Each launch of a window with its parameters.",
    items="launches",
)
EXPORT = Document(
    "replay.export/1",
    "replay.export.folder:Exported",
    "export --json",
    "The programs that were written.",
    items="programs",
)
COUNTERS = Document(
    "replay.emulator.counters/1",
    "replay.results.files:EmulatorCounters",
    "CPU driver: each line of REPLAY_EMULATOR_COUNTERS",
    "What was counted in one launch.",
)
ERROR = Document(
    "replay.error/1",
    "replay.errors:ErrorPrinted",
    "every command with --json that cannot do it",
    "What is wrong, where, and what to do.",
)


def _listed(subject: str, model: str, about: str) -> Document:
    return Document(f"replay.ls.{subject}/1", model, f"ls SNAP {subject} --json", about, items=subject)


LISTS = {
    "calls": _listed("calls", "replay.inspection.listed:ListedCall", "Driver calls with their arguments."),
    "kernels": _listed(
        "kernels", "replay.inspection.listed:ListedKernel", "Kernels with geometry and parameters."
    ),
    "memory": _listed(
        "memory", "replay.inspection.listed:ListedRange", "Allocations, without their contents."
    ),
    "images": _listed(
        "images", "replay.inspection.listed:ListedImage", "Module images, and what is in them."
    ),
    "notes": _listed("notes", "replay.inspection.listed:ListedNote", "What is missing or special."),
    "windows": _listed(
        "windows", "replay.snapshot.contents:WindowInfo", "Windows of a snapshot with several."
    ),
}

ALL: tuple[Document, ...] = (
    CAPTURE, LAUNCHES, PACK, EXTRACT, INFO, *LISTS.values(), DUMP, PARAMETERS, VERIFY, EXPORT, RUN, RUN_WINDOWS,
    RUN_VARIANT, PREFLIGHT, PREFLIGHT_WINDOWS, OUTPUTS, COMPARISON, BISECTION, CHECK, EXPLANATION, REPORT, HISTORY,
    BASELINE, DOCTOR, COUNTERS, ERROR,
)  # fmt: skip
