"""Text of `replay info`, `ls` and `verify`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replay.images.demangle import demangle
from replay.inspection.origins import origin_text
from replay.outputs.wording import fault_text
from replay.report.perturbation import skipped_launches, what_it_did
from replay.report.run.preflight import needs_lines
from replay.snapshot.contents import SnapshotInfo, Verification, WindowInfo, changed_bytes
from replay.snapshot.schema import Call, Compilation, Environment, Image, Kernel, Note, Range, Summary, Window
from replay.text import (
    Cells,
    Column,
    Screen,
    cuda_version,
    dimensions,
    fields,
    heading,
    listing,
    number,
    shown,
    size,
    some,
    table,
)

if TYPE_CHECKING:
    from replay.inspection.dump import DumpResult
    from replay.inspection.requirements import Requirements

INFO_KERNELS = 12  # rows on the one screen of `info`; `ls kernels` shows all
INFO_WINDOWS = 8
INFO_PROBLEMS = 6
INFO_NAME = 120
PROBLEM_LENGTH = 200
SHOWN_PIECES = 20
SIGNALS = {2: "SIGINT", 6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def render_info(info: SnapshotInfo, screen: Screen, needs: Requirements | None = None) -> str:
    """One screen: what was captured where, what the file holds, what a replay needs, what is missing."""
    first = f"{shown(info.path)}: snapshot, {size(info.file_bytes)}, format {info.format_version}"
    parts = [
        heading(first if info.whole else f"{first}, INCOMPLETE", screen),
        fields(info_facts(info), screen),
    ]
    if info.windows:
        parts += ["", render_windows(info.windows[: screen.most(INFO_WINDOWS)], screen)]
        parts += screen.rest(info.windows, INFO_WINDOWS, "window")
    if info.kernels:
        parts += ["", _kernels(info.kernels[: screen.most(INFO_KERNELS)], info.compilations, screen)]
        parts += screen.rest(info.kernels, INFO_KERNELS, "kernel")
    if needs is not None:
        parts += ["", heading("What a replay needs", screen), fields(needs_lines(needs), screen)]
    parts += _problems(info, screen)
    if info.whole:
        one = f" (one window: --window {info.windows[0].number})" if info.windows else ""
        parts += ["", f"Replay it with: replay run {shown(info.path)}{one}"]
    return "\n".join(parts)


def info_facts(info: SnapshotInfo) -> list[tuple[str, str]]:
    """What `info` says of a snapshot, by name."""
    environment, summary = info.environment, info.summary
    pairs = []
    if not info.whole:
        pairs.append(("usable", shown(info.condition)))
    pairs += [("damaged", shown(damage)) for damage in info.damages[:INFO_PROBLEMS]]
    if info.header is not None:
        pairs.append(
            ("captured", f"{shown(info.header.created_utc)} by replay {shown(info.header.tool_version)}")
        )
    if environment is not None:
        pairs.append(("command", shown(" ".join(environment.command), 400)))
        if rank := environment.details.get("rank"):
            pairs.append(("rank", shown(rank)))
        pairs.append(("ended with", _exit(environment.exit_status)))
        pairs.append(("device", devices_line(environment)))
    if info.windows:
        pairs.append(("windows", f"{len(info.windows):,}, together:"))
    if summary is not None:
        pairs += _window(summary)
        pairs += _elsewhere(info)
    else:
        counted = [f"{number(count, kind)}" for kind, count in info.objects.items()]
        pairs.append(("holds", ", ".join(map(shown, counted))))
    return pairs


def _exit(status: int | None) -> str:
    if status is None:
        return ""
    if status < 0:
        return f"killed by signal {-status} ({SIGNALS.get(-status, 'see `kill -l`')})"
    return "" if status == 0 else f"exit status {status}"


def devices_line(environment: Environment) -> str:
    """The devices of a capture, and their driver."""
    names = [
        f"{shown(device.name, 80)} (sm_{shown(device.compute_capability).replace('.', '')})"
        for device in environment.devices
    ]
    counted = {name: names.count(name) for name in names}
    text = (
        ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counted.items())
        or "none seen"
    )
    if environment.emulated:
        return f"{text}: the built-in CPU driver, no GPU; its times are modelled"
    driver = f", driver {cuda_version(environment.driver_version)}" if environment.driver_version else ""
    return text + driver


def _window(summary: Summary) -> list[tuple[str, str]]:
    state = "" if summary.state == "complete" else f"{summary.state}: {shown(summary.state_text)}"
    streams = number(summary.streams, "stream") if summary.streams > 1 else ""
    threads = number(summary.threads, "thread") if summary.threads > 1 else ""
    calls = f"{number(summary.window_calls, 'call')} after {number(summary.setup_calls, 'setup call')}"
    window = [number(summary.launches, "launch", "launches"), calls, streams, threads]
    memory = f"{number(summary.ranges, 'allocation')}, {size(summary.memory_bytes)}"
    changed = f"{size(summary.written_bytes)} changed by the window"
    pointers = f"{number(summary.census_words, 'pointer')} found inside" if summary.census_words else ""
    images = f"{number(len(summary.images), 'module image')}, {size(sum(summary.images.values()))}"
    changes = summary.perturbation
    return [
        ("raw capture", state),
        ("selection", shown(summary.selection, 200)),
        ("trigger", shown(summary.trigger, 200)),
        ("watched", shown(summary.watched, 200)),
        ("not watched", shown(summary.not_watched, 400)),
        ("window", ", ".join(filter(None, window))),
        ("fault", f"it {fault_text(summary.fault)}" if summary.fault is not None else ""),
        ("memory", ", ".join(filter(None, (memory, changed, pointers)))),
        ("perturbation", what_it_did(changes) if changes is not None else ""),
        ("skipped", skipped_launches(changes) if changes is not None else ""),
        ("stored", f"{size(summary.stored_bytes)} of distinct memory before compression; {images}"),
    ]


def _elsewhere(info: SnapshotInfo) -> list[tuple[str, str]]:
    found = info.elsewhere
    if found is None:
        return []
    pieces = (
        f"{size(found.piece_bytes)} in {number(found.pieces, 'piece')} of a store" if found.pieces else ""
    )
    weights = (
        f"{size(found.weights_bytes)} in {some(found.weights, INFO_WINDOWS)}" if found.weights_bytes else ""
    )
    return [("elsewhere", shown(", ".join(filter(None, (pieces, weights)))))]


def _problems(info: SnapshotInfo, screen: Screen) -> list[str]:
    """One line for each code: how often, and the first of them in words. Functions that are not captured: each."""
    if not info.problem_counts:
        return []
    pairs = []
    for code, count in sorted(info.problem_counts.items()):
        label = shown(code, 40) + (f" x {count:,}" if count > 1 else "")
        texts = [_problem(note) for note in info.problems if note.code == code] or ["see the notes"]
        pairs += [(label if place == 0 else "", text) for place, text in enumerate(texts)]
    total = sum(info.problem_counts.values())
    lines = ["", heading("What is missing", screen), fields(pairs[:INFO_PROBLEMS], screen)]
    if total > len(pairs) or len(pairs) > INFO_PROBLEMS:
        lines.append(f"  All {total:,}: replay ls {shown(info.path)} notes")
    return lines


def _problem(note: Note) -> str:
    text = shown(note.text, PROBLEM_LENGTH)
    if not note.function:
        return text
    return f"{shown(note.function, 60)}{f' (call {note.call})' if note.call else ''}: {text}"


def _kernels(kernels: Iterable[Kernel], compilations: Iterable[Compilation], screen: Screen) -> str:
    listed = list(kernels)
    # A name alone does not always say which kernel is meant.
    ambiguous = len({kernel.name for kernel in listed}) < len(listed)
    cells: Cells[Kernel] = [
        (Column("kernel", cut="middle"), lambda kernel: shown(_name(kernel), INFO_NAME)),
        (Column("image", if_filled=True), lambda kernel: shown(kernel.image[:8]) if ambiguous else ""),
        *_GEOMETRY,
        (Column("parameters", "right"), _layout),
    ]
    lines = [*_launched_with(listed, "  "), *_made(listed, compilations, "  ", ambiguous)]
    return "\n".join([listing(listed, cells, screen, indent=2), *lines])


_GEOMETRY: Cells[Kernel] = [
    (Column("launches", "right"), lambda kernel: f"{kernel.launches:,}"),
    (Column("grid", "right"), lambda kernel: dimensions(kernel.grid)),
    (Column("block", "right"), lambda kernel: dimensions(kernel.block)),
    (
        Column("shared", "right"),
        lambda kernel: size(kernel.shared_bytes + kernel.attributes.get("static_shared_bytes", 0)),
    ),
    (
        Column("registers", "right", if_filled=True),
        lambda kernel: str(kernel.attributes.get("registers", "")),
    ),
]


def _launched_with(kernels: list[Kernel], indent: str) -> list[str]:
    """A line for each kernel that was launched with attributes."""
    return _from_where(kernels, indent) + [
        f"{indent}{shown(_name(kernel), INFO_NAME)} launched with {shown('; '.join(kernel.launch_attributes), 400)}"
        for kernel in kernels
        if kernel.launch_attributes
    ]


def _from_where(kernels: list[Kernel], indent: str) -> list[str]:
    """A line for each kernel whose first launch is known to come from somewhere."""
    return [
        f"{indent}{shown(_name(kernel), INFO_NAME)} launched from {shown(origin_text(kernel.origin), 400)}"
        for kernel in kernels
        if kernel.origin
    ]


def _made(
    kernels: list[Kernel], compilations: Iterable[Compilation], indent: str, ambiguous: bool
) -> Iterator[str]:
    """A line for each kernel of which the snapshot has what the compiler made it of."""
    by_image = {item.image: item for item in compilations}
    for kernel in kernels:
        if (made := by_image.get(kernel.image)) is not None:
            which = f" of image {shown(kernel.image[:8])}" if ambiguous else ""
            yield f"{indent}{shown(_name(kernel), INFO_NAME)}{which} {compilation_line(made)}"


def compilation_line(made: Compilation) -> str:
    """By what an image was made, from where, how, and which levels of its IR there are."""
    words = {"num_warps": "warp", "num_stages": "stage", "num_ctas": "CTA"}
    chosen = [
        number(int(value), word)
        for option, word in words.items()
        if (value := made.options.get(option, "")).isdecimal()
        and len(value) < 9
        and (option, value) != ("num_ctas", "1")
    ]
    parts = [
        f"from {shown(made.place, 120)}" if made.place else "",
        ", ".join(chosen),
        f"with {', '.join(shown(level, 20) for level in made.levels)}" if made.levels else "without IR",
    ]
    return f"by {shown(made.compiler, 60)} " + "; ".join(filter(None, parts))


def _name(kernel: Kernel) -> str:
    """Demangled, without the return type that every kernel has."""
    return (kernel.demangled or kernel.name).removeprefix("void ")


def _layout(kernel: Kernel) -> str:
    end = max((slot.offset_bytes + slot.size_bytes for slot in kernel.parameters), default=0)
    return f"{len(kernel.parameters)} ({size(end)})" if kernel.parameters else "none"


def render_call(call: Call, described: str, kernel: str, image: str, origin: str = "") -> str:
    """One line of `replay ls SNAP calls`. described: the call as `replay.inspection.readable` shows it.

    image: digest of the kernel's, where the name alone does not tell it.
    """
    launched = f"  # {shown(kernel)}" if kernel else "  # made by capture" if call.by_capture else ""
    if call.kernels:
        launched = "  # " + shown(", ".join(kernel_counts(call.kernels)))
    if call.in_capture:
        launched += "  # into a stream capture: nothing ran"
    launched += f" of image {shown(image[:8])}" if image else ""
    launched += f" from {shown(origin)}" if origin else ""
    return f"{call.number:>6} {call.section:<6} {described}{launched}"


def kernel_counts(kernels: dict[str, int]) -> list[str]:
    """What the launch of a graph launches: `linear x2`, the most frequent first."""
    ordered = sorted(kernels.items(), key=lambda item: -item[1])
    return [demangle(name) + (f" x{count}" if count > 1 else "") for name, count in ordered]


def render_kernels(
    kernels: Iterable[Kernel], screen: Screen, compilations: Iterable[Compilation] = ()
) -> str:
    """`replay ls SNAP kernels`. Parameters are shown as offset:size in the parameter buffer; kernels of one name differ
    in their image."""
    listed = list(kernels)
    cells: Cells[Kernel] = [
        *_GEOMETRY,
        (
            Column("parameters", cut=True),
            lambda kernel: " ".join(f"{slot.offset_bytes}:{slot.size_bytes}" for slot in kernel.parameters),
        ),
        (Column("image"), lambda kernel: shown(kernel.image[:8])),
        (Column("kernel", cut="middle"), lambda kernel: shown(_name(kernel))),
    ]
    made = _made(listed, compilations, "", len({kernel.name for kernel in listed}) < len(listed))
    return "\n".join([listing(listed, cells, screen), *_launched_with(listed, ""), *made])


def _asked_for(item: Range) -> str:
    """What the application asked for beside the size: `cuMemMap physical 1, location_id 0`."""
    properties = [
        f"{name} {value}" for name, value in item.properties.items() if not name.startswith("pool_")
    ]
    words = [*([f"physical {item.physical}"] if item.physical else []), *properties]
    words += [f"flags {item.host_flags:#x}"] if item.host_flags else []
    words += [f"{len(item.hints)} hints"] if item.hints else []
    return f"{item.function} {', '.join(words)}".strip() if words else ""


def render_memory(ranges: Iterable[Range], screen: Screen) -> str:
    """`replay ls SNAP memory`. The address of an array is its handle.

    Calls: the window calls between which the allocation lived, if it did not outlive it."""
    captured = {(True, True): "both", (True, False): "before", (False, True): "after", (False, False): "NO"}
    cells: Cells[Range] = [
        (Column("id", "right"), lambda item: str(item.id)),
        (Column("kind"), lambda item: item.kind + (f" on {item.device}" if item.device else "")),
        (Column("address", "right"), lambda item: f"{item.owner if item.array else item.address:#x}"),
        (Column("size", "right"), lambda item: size(item.size_bytes)),
        (Column("captured"), lambda item: captured[item.before is not None, item.after is not None]),
        (Column("changed", "right"), _changed),
        (Column("calls", if_filled=True), _lived),
        (
            Column("name", cut=True, if_filled=True),
            lambda item: shown(str(item.array) if item.array else item.name or _asked_for(item)),
        ),
    ]
    return listing(ranges, cells, screen)


def _changed(item: Range) -> str:
    changed = changed_bytes(item)
    return "" if changed is None else size(changed)


def _lived(item: Range) -> str:
    born, died = (str(call) if call is not None else "" for call in (item.born_call, item.died_call))
    return f"{born}-{died}" if born or died else ""


def render_images(images: Iterable[tuple[Image, str]], screen: Screen) -> str:
    """`replay ls SNAP images`: each image with a line that says what is in it."""
    cells: Cells[tuple[Image, str]] = [
        (Column("digest"), lambda item: shown(item[0].digest)),
        (Column("kind"), lambda item: item[0].kind),
        (Column("size", "right"), lambda item: size(item[0].contents.size_bytes)),
        (Column("holds", cut=True), lambda item: shown(item[1] + _left_out(item[0]))),
    ]
    return listing(images, cells, screen)


def _left_out(image: Image) -> str:
    if not image.left_out:
        return ""
    return f"; without {', '.join(image.left_out)} ({size(image.loaded_bytes)} in the application)"


def render_window_title(window: Window, screen: Screen) -> str:
    """The heading of the list of one window of several."""
    return heading(f"window {window.number} ({shown(window.opened_by)})", screen)


def render_windows(windows: Iterable[WindowInfo], screen: Screen) -> str:
    """`replay ls SNAP windows`. What each has stored that no window before it had."""
    columns = [
        Column("window", "right"),
        Column("opened by"),
        Column("launches", "right"),
        Column("calls", "right"),
        Column("memory", "right"),
        Column("changed", "right"),
        Column("stored", "right"),
        Column("kernels", cut=True),
    ]
    rows = []
    for window in windows:
        row = [str(window.number), shown(window.opened_by, 40)]
        if (summary := window.summary) is None:
            rows.append((*row, "", "", "", "", "", "the rest of it is damaged"))
            continue
        names = ", ".join(shown(_name(kernel), 60) for kernel in summary.kernels[:INFO_KERNELS])
        counts = (f"{summary.launches:,}", f"{summary.window_calls:,}", size(summary.memory_bytes))
        rows.append((*row, *counts, size(summary.written_bytes), size(summary.stored_bytes), names))
    return table(columns, rows, screen)


def render_notes(notes: Iterable[Note], screen: Screen) -> str:
    """`replay ls SNAP notes`."""
    cells: Cells[Note] = [
        (Column("code"), lambda note: shown(note.code, 40)),
        (Column("call", "right", if_filled=True), lambda note: str(note.call or "")),
        (Column("function", if_filled=True), lambda note: shown(note.function, 80)),
        (Column("text", cut=True), lambda note: shown(note.text)),
    ]
    return listing(notes, cells, screen)


def render_verification(result: Verification, quiet: bool) -> Iterator[str]:
    """`replay verify`: one line when all is well, else one line for each thing that is not."""
    report, path = result.report, shown(result.path)
    checked = (
        f"{number(report.frames, 'frame')}, {number(report.objects, 'object')}, {size(report.file_bytes)}"
    )
    if result.good:
        if not quiet:
            yield f"{path}: every checksum matches ({checked})"
            if report.references:
                there = f"{size(report.elsewhere_bytes)} in {number(report.references, 'piece')}"
                how = (
                    "every piece matches"
                    if result.elsewhere is not None
                    else "not looked at: name --store or --weights"
                )
                yield f"{path}: {there} is elsewhere ({how})"
        return
    if not report.condition.whole:
        yield f"{path}: {shown(report.condition)}"
    for damage in report.damages:
        yield f"{path}: {shown(damage)}"
    for what in result.missing:
        yield f"{path}: {shown(what)}: its contents are damaged or not in the file"
    wrong = result.elsewhere or []
    yield from (f"{path}: {shown(what)}" for what in wrong[:SHOWN_PIECES])
    if wrong and not quiet:
        yield f"{path}: of what is elsewhere, {number(len(wrong), 'piece')} cannot be used"
    if not quiet and not (report.good and not result.missing):
        total = number(report.frames + report.damaged_frames, "frame")
        yield f"{path}: DAMAGED: {report.frames} of {total} and {number(report.objects, 'object')} could be read"


def render_dump(result: DumpResult) -> str:
    """`replay dump`: what was written, in one line for each sort of file."""
    groups: dict[str, list[int]] = {}
    for file in result.files:
        groups.setdefault(file.what, []).append(file.bytes)
    lines = [
        f"{shown(result.folder)}: {number(len(sizes), f'{what} file')}, {size(sum(sizes))}"
        for what, sizes in groups.items()
    ]
    return "\n".join([*lines, f"{shown(result.folder)}/manifest.json names them"])
