"""Every JSON document that `replay` writes, declared once: its schema, the type that it is made of, and who writes it.

`replay.results.json` writes them, `docs/schemas/generate.py` makes the JSON Schema files of them, and
docs/machine-readable.md lists them. The number in a schema changes when a field changes its meaning or goes away;
fields that are added do not change it.
"""

from __future__ import annotations

from importlib import import_module

from replay.records import dataclass


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


def _document(
    name: str, model: str, written_by: str, about: str, items: str = "", private: bool = False
) -> Document:
    """name, model: without the `replay.` that both begin with."""
    return Document(f"replay.{name}/1", f"replay.{model}", written_by, about, items, private)


RUN = _document(
    "run", "results.schema:RunResult", "run --json", "One replay: outputs, times, placement.", private=True
)
RUN_WINDOWS = _document(
    "run.windows",
    "results.schema:WindowResult",
    "run --json, several windows",
    "A replay of each window of a snapshot.",
    items="windows",
    private=True,
)
RUN_VARIANT = _document(
    "run.variant",
    "results.schema:VariantFacts",
    "run --json, exit code 3",
    "A variant that was built, and that this driver cannot execute.",
    private=True,
)
PREFLIGHT = _document(
    "run.preflight",
    "results.preflight:Preflight",
    "run --dry-run --json",
    "What a snapshot needs of a driver and device, and what they have.",
    private=True,
)
PREFLIGHT_WINDOWS = _document(
    "run.preflight.windows",
    "results.preflight:Preflight",
    "run --dry-run --json, several windows",
    "The same for each window of a snapshot.",
    items="windows",
    private=True,
)
OUTPUTS = _document(
    "outputs",
    "results.written_files:OutputsManifest",
    "run --save-outputs: manifest.json",
    "What the files with outputs are.",
    private=True,
)
COMPARISON = _document(
    "comparison",
    "results.comparison:Comparison",
    "compare --json, compare -o",
    "Two sides, row by row, with the rounds.",
    private=True,
)
EVALUATION = _document(
    "evaluation",
    "results.evaluation:Evaluated",
    "evaluate --json",
    "A candidate beside the captured kernel: outputs, time, what moved, and a hint.",
    private=True,
)
TUNING = _document(
    "tuning",
    "results.tuning:Tuning",
    "tune --json, tune -o",
    "Configurations of a kernel, and the best one.",
    private=True,
)
BISECTION = _document(
    "bisection",
    "results.bisection:Bisection",
    "bisect --json, bisect -o",
    "Candidates, and the first bad one.",
    private=True,
)
CHECK = _document(
    "check", "results.check:Check", "check --json", "The cases of a nightly gate.", private=True
)
FLEET = _document(
    "fleet",
    "results.fleet:Fleet",
    "fleet run --json, fleet status --json",
    "A night of a fleet: verdicts, devices, how far it is.",
)
FLEET_PLAN = _document(
    "fleet.plan", "results.fleet:FleetPlan", "fleet run: plan.json", "What a night of a fleet is to do."
)
FLEET_UNIT = _document(
    "fleet.unit",
    "results.fleet:FleetMeasured",
    "fleet run: units/*/ID.json",
    "What a device found for one unit.",
)
HISTORY = _document(
    "history",
    "history.series:HistoryView",
    "history --json",
    "Results over time, and where their level changed.",
    private=True,
)
BASELINE = _document(
    "baseline",
    "history.baseline:Baseline",
    "baseline --json; baseline.json",
    "The accepted time of each series.",
)
EXPLANATION = _document(
    "explanation",
    "results.explanation:ExplanationPrinted",
    "explain --json",
    "The evidence of results, in sentences.",
    private=True,
)
DIFFERENCE = _document(
    "difference",
    "difference.levels:CodeDifference",
    "difference --json",
    "Where two sides first differ, level by level.",
    private=True,
)
REPORT = _document(
    "report", "results.written_files:ReportPrinted", "report --json", "The files that a report was made into."
)
DOCTOR = _document(
    "doctor", "doctor.findings:Examination", "doctor --json", "Problems of a machine, and cures."
)
WATCH = _document(
    "watch",
    "capture.live:WatchEvent",
    "capture --status, one on each line",
    "How watching goes: what was counted, and each snapshot that was written or removed.",
)
CAPTURE = _document(
    "capture", "results.captured:CapturePrinted", "capture --json, last line", "What became of a capture."
)
LAUNCHES = _document(
    "launches",
    "results.captured:LaunchesPrinted",
    "capture --list --json, last line",
    "The launches of an application.",
)
PACK = _document("pack", "results.captured:PackPrinted", "pack --json", "Snapshots of a raw capture.")
EXTRACT = _document(
    "extract", "inspection.listed:ExtractPrinted", "extract --json", "The file that was cut out."
)
FETCH = _document("fetch", "fetching.whole:Fetched", "fetch --json", "The file that is whole now.")
STORE_GC = _document(
    "store.gc", "fetching.unused:Unused", "store gc --json", "Pieces of a store that no snapshot needs."
)
INFO = _document(
    "info", "inspection.listed:InfoPrinted", "info --json", "What is in a snapshot.", private=True
)
INFO_PRIVACY = _document(
    "info.privacy",
    "inspection.exposure:Exposure",
    "info --privacy --json",
    "What a stranger could read in a snapshot.",
)
REDACT = _document(
    "redact",
    "redaction.model:Redaction",
    "redact --json",
    "What was taken out of a snapshot, how that was proven, and what can still be read.",
)
ATTACH = _document(
    "attach", "results.attached:Attached", "attach --json", "The folder for an issue, and what is in it."
)
MINIMISATION = _document(
    "minimise",
    "minimising.model:Minimisation",
    "minimise --json",
    "How far a snapshot was made smaller, and the symptom that it shows.",
    private=True,
)
VERIFY = _document(
    "verify", "inspection.listed:VerifyPrinted", "verify --json", "Whether a snapshot is whole."
)
DUMP = _document(
    "dump",
    "inspection.dump:DumpResult",
    "dump --json; manifest.json",
    "The files that hold what was in a snapshot.",
    private=True,
)
PARAMETERS = _document(
    "parameters",
    "results.written_files:DumpedLaunch",
    "dump: parameters.json",
    "Each launch of a window with its parameters.",
    items="launches",
    private=True,
)
EXPORT = _document(
    "export", "export.folder:Exported", "export --json", "The programs that were written.", items="programs"
)
COUNTERS = _document(
    "emulator.counters",
    "results.written_files:EmulatorCounters",
    "CPU driver: each line of REPLAY_EMULATOR_COUNTERS",
    "What was counted in one launch.",
)
FINDINGS = _document(
    "findings",
    "results.findings:MemoryCheck",
    "check-memory --json",
    "What kernels do to memory that CUDA leaves undefined.",
    private=True,
)
VERSION = _document(
    "version",
    "doctor.facts:VersionFacts",
    "--version --json",
    "This installation and machine, for a bug report.",
)
ERROR = _document(
    "error",
    "errors:ErrorPrinted",
    "every command with --json that cannot do it",
    "What is wrong, where, and what to do.",
)


def _listed(subject: str, model: str, about: str) -> Document:
    return _document(f"ls.{subject}", model, f"ls SNAP {subject} --json", about, subject, private=True)


_LISTED = (
    ("calls", "inspection.listed:ListedCall", "Driver calls with their arguments."),
    ("kernels", "inspection.listed:ListedKernel", "Kernels with geometry and parameters."),
    ("memory", "inspection.listed:ListedRange", "Allocations, without their contents."),
    ("images", "inspection.listed:ListedImage", "Module images, and what is in them."),
    ("notes", "inspection.listed:ListedNote", "What is missing or special."),
    ("windows", "snapshot.contents:WindowInfo", "Windows of a snapshot with several."),
)
LISTS = {subject: _listed(subject, model, about) for subject, model, about in _LISTED}

ALL: tuple[Document, ...] = (
    WATCH,
    CAPTURE, LAUNCHES, PACK, EXTRACT, FETCH, STORE_GC, INFO, INFO_PRIVACY, *LISTS.values(), DUMP, PARAMETERS, VERIFY,
    EXPORT, REDACT, ATTACH, MINIMISATION, RUN, RUN_WINDOWS, RUN_VARIANT, PREFLIGHT, PREFLIGHT_WINDOWS, OUTPUTS,
    COMPARISON, EVALUATION, TUNING, BISECTION, CHECK, FLEET, FLEET_PLAN, FLEET_UNIT,
    EXPLANATION, DIFFERENCE, REPORT, HISTORY, BASELINE, DOCTOR, FINDINGS, VERSION, COUNTERS, ERROR,
)  # fmt: skip
