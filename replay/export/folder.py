"""Writes an exported program into a folder: nothing outside of it, nothing over what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from replay.errors import EngineError, FileError
from replay.export.rendering import Renderer
from replay.export.steps import ContentsFile, ExportPlan
from replay.inspection.folder import OutputFolder
from replay.inspection.pieces import read_chunk, require_contents
from replay.privacy import without_places
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES, Contents
from replay.text import size as size_text

_CHECKS = """
It puts memory at the addresses it had in the application, loads the modules and the contents, makes the calls of the
window in their order, and compares what they leave with what the application had, bit by bit. Then it times the window
(SAMPLES times, 20 if not given, 0 for not at all): what it writes is restored and the L2 cache flushed before each.

Exit status: 0 the outputs match, 1 they differ, 3 something could not be done.
"""

_DRIVER = """The driver is the `libcuda.so.1` that the loader finds. Without a GPU, `pip install gpu-replay` brings one
that executes PTX on the CPU:

```
LD_LIBRARY_PATH=$(python -c "import replay; print(replay.__path__[0] + '/_native/emulator')") {}
```"""

_COMPILED = (
    '# or: g++ -std=c++17 -I"${CUDA_HOME:-/usr/local/cuda}/include" main.cpp -ldl -o window && '
    "./window [SAMPLES]"
)

_FAULT = """
The window ended in an error in the application, error {} at {}.

The program puts memory at the addresses it had there, loads the modules and the contents, and makes the calls of the
window up to that one, which must end in the same error; a debugger or `compute-sanitizer` around it shows where.

Exit status: 0 it ends in that error, 1 it ends well, 3 something else could not be done.
"""

_FILES = """
| file | content |
| --- | --- |
| `{}` | {} |
{}| `memory-N.bin` | what memory held before the window and after it |
| `data-N.bin` | what the host gave to calls, and what it got from them |

An image may be changed or replaced in its place (PTX and machine code are distinguished by their contents), and so may
grids, blocks and calls in `{}`. `EXPORT_DEVICE=N` takes another device, `EXPORT_FOLDER` names the folder with the
data files, `EXPORT_HOLD=0` does not hold the stream while the window is queued, for a profiler. What another image
leaves in variables that the captured one lacks is not restored between samples: take one sample of it.
"""


@dataclass(frozen=True)
class Exported:
    """What was written. notes: what the program does differently from the application."""

    folder: Path
    language: str
    files: list[str]
    size_bytes: int
    steps: int
    notes: list[str]


def export(
    path: str | os.PathLike[str],
    language: str,
    folder: Path,
    *,
    force: bool,
    window: int | None,
    progress: Callable[[str], None] = lambda text: None,
) -> Exported:
    """Write a snapshot as a program: language "cuda" or "python". progress: called with what is going on. Raises
    ReplayError."""
    from replay.export import cuda, python
    from replay.export.plan import plan_export
    from replay.snapshot.windows import choose_window

    _refuse_full(folder, force)
    with SnapshotReader(path) as reader:
        reader.require_whole()
        choose_window(reader, window)
        require_contents(reader)
        progress("reading the calls of the window")
        try:
            plan = plan_export(reader)
        except EngineError as error:
            if error.next and "--best-effort" in error.next:
                error.next = "`replay run --best-effort` replays the rest; a part of a window is not exported"
            raise
        main = "main.cpp" if language == "cuda" else "window.py"
        text, renderer = (cuda if language == "cuda" else python).render(plan)
        texts = {main: without_places(text), "README.md": _readme(plan, language, renderer.files)}
        if language == "cuda":
            texts |= {"export.h": header(), "CMakeLists.txt": template("CMakeLists.txt")}
        size = _write(reader, folder, force, texts, renderer, progress)
    steps = sum(len(part) for part in (plan.setup, plan.loads, plan.window, plan.compares))
    return Exported(folder, language, [*texts, *renderer.files], size, steps, plan.notes)


def template(name: str) -> str:
    """A text that is the same in every program."""
    return resources.files("replay.export").joinpath("templates").joinpath(name).read_text()


def header() -> str:
    """export.h: its parts one after the other, so that a program has one file to include."""
    return "".join(template(f"export/{part}.h") for part in ("driver", "memory", "program"))


def _refuse_full(folder: Path, force: bool) -> None:
    if not folder.is_dir() or force:
        return
    with os.scandir(folder) as entries:
        if next(entries, None) is not None:
            raise FileError("is not empty", where=folder, next="choose another folder or give --force")


def _write(
    reader: SnapshotReader,
    folder: Path,
    force: bool,
    texts: dict[str, str],
    renderer: Renderer,
    progress: Callable[[str], None],
) -> int:
    output = OutputFolder(folder, force)
    try:
        total = sum(item.size_bytes for item in renderer.files.values()) + sum(map(len, texts.values()))
        output.check_space(total)
        written = sum(map(len, texts.values()))
        for name, text in texts.items():
            with output.create(name) as (file, _):
                file.write(text.encode("utf-8", "replace"))
        for name, item in renderer.files.items():
            with output.create(name) as (file, _):
                for piece in _pieces(reader, item):
                    file.write(piece)
                    percent, written = 100 * written // total, written + len(piece)
                    if 100 * written // total != percent:
                        progress(f"writing {name}: {100 * written // total} % of {size_text(total)}")
        return total
    finally:
        output.close()


def _pieces(reader: SnapshotReader, item: ContentsFile) -> Iterable[bytes]:
    if item.data is not None:
        return [item.data]
    contents = Contents(item.size_bytes, item.digests)
    sizes = (min(CHUNK_BYTES, item.size_bytes - at) for at in range(0, item.size_bytes, CHUNK_BYTES))
    return (
        read_chunk(reader, digest, size) for digest, size in zip(contents.chunk_digests(), sizes, strict=True)
    )


def _readme(plan: ExportPlan, language: str, files: Iterable[str]) -> str:
    from replay.export.rendering import comment

    cpp = language == "cuda"
    lines = [
        f"# A window of {comment(plan.name)}",
        "",
        f"Kernels: {comment(', '.join(plan.kernels)) or 'none'}.",
        f"Captured on compute capability {comment(plan.architecture)}; {plan.device_bytes >> 20} MiB of device memory.",
        "",
        "```",
    ]
    if cpp:
        lines += [
            "cmake -B build && cmake --build build && build/window [SAMPLES]",
            _COMPILED,
        ]
    else:
        lines += ["pip install cuda-python numpy", "python window.py [SAMPLES]"]
    lines += ["```", ""]
    if cpp:
        lines.append(
            "It needs a C++17 compiler and `cuda.h` of a CUDA toolkit (`-DCUDA_INCLUDE=FOLDER`, or `CUDA_HOME`)."
        )
    lines.append(_DRIVER.format("build/window" if cpp else "python window.py"))
    lines.append(_FAULT.format(plan.error, comment(plan.error_call)) if plan.error else _CHECKS)
    program = "main.cpp" if cpp else "window.py"
    content = (
        "the calls of the window, in `window_0` and what follows it"
        if cpp
        else "everything; the calls are in `window`"
    )
    images = "".join(f"| `{name}` | a module image |\n" for name in files if name.startswith("image-"))
    if cpp:
        images = "| `export.h` | memory at captured addresses, checks, times |\n" + images
    lines.append(_FILES.strip("\n").format(program, content, images, program))
    if plan.notes:
        lines += [
            "",
            "What differs from the application:",
            "",
            *(f"- {comment(without_places(text))}" for text in plan.notes),
        ]
    return "\n".join(lines).rstrip("\n") + "\n"
