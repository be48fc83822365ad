"""The machine code of one kernel as the user's own `nvdisasm` or `cuobjdump` shows it. Nothing is disassembled here,
and what they print is kept nowhere."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from replay.difference.listing import CodeLine
from replay.errors import EngineError
from replay.variants.compilers.toolkits import find_tools
from replay.variants.compilers.tools import run_tool

TIMEOUT_S = 60
MAXIMUM_LINES = 200_000
# `.text.NAME:` of nvdisasm, `Function : NAME` of cuobjdump
_BEGIN = re.compile(r"^\s*(?:\.text\.(\S+):|Function : (\S+))\s*$")
_END = re.compile(r"^\s*(?:\.section\b|\.{10,})")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s*([^;/]+?)\s*;")
# `//## File "/home/x/saxpy.cu", line 12`, of nvdisasm -g
_SOURCE = re.compile(r'^\s*//## File "([^"]{0,4096})", line (\d{1,9})')
_LABEL = re.compile(r"^\s*(\.L_\w+):")
_NAME = re.compile(r"(?<![\w.])(?:U?[RP]\d+|B\d+)(?!\w)|\.L_\w+|(?<=BRA )0x[0-9a-f]+")


class Disassembler:
    """The tool that was found; a command of it for each cubin."""

    def __init__(self) -> None:
        self._tool: Path | None = None
        self._is_nvdisasm = False
        for name in ("nvdisasm", "cuobjdump"):
            if found := find_tools(name):
                self._tool, self._is_nvdisasm = found[0], name == "nvdisasm"
                break

    @property
    def name(self) -> str:
        """ "" when there is none."""
        return "" if self._tool is None else self._tool.name

    def lines(self, cubin: bytes, kernel: str) -> list[CodeLine]:
        """None of them when the tool shows no such kernel. kernel: mangled. Raises EngineError."""
        return _kernel_lines(self._shown(cubin, ["-c"]), kernel)

    def listing(self, cubin: bytes, kernel: str) -> list[tuple[str, str]]:
        """(instruction, "saxpy.cu:12" where it comes from other source than the one before, else ""); the source only
        of nvdisasm, and of cubins that say it. Raises EngineError."""
        return list(_placed(self._shown(cubin, ["-c", "-g"]), kernel))

    def _shown(self, cubin: bytes, options: Sequence[str]) -> list[str]:
        """What the tool prints. options: of nvdisasm."""
        if self._tool is None:
            raise EngineError(
                "neither nvdisasm nor cuobjdump was found", next="they come with the CUDA toolkit"
            )
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            given = options if self._is_nvdisasm else ["-sass"]
            ran = run_tool([str(self._tool), *given, file.name], TIMEOUT_S)
        if ran.status != 0:
            raise EngineError(f"ended with status {ran.status}: {ran.first_error}", where=self._tool)
        return ran.output.decode("utf-8", "replace").splitlines()


def _placed(text: Sequence[str], kernel: str) -> Iterator[tuple[str, str]]:
    inside, count, place, last = False, 0, "", ""
    for line in text:
        if begin := _BEGIN.match(line):
            inside = kernel in (begin[1], begin[2])
        elif _END.match(line):
            inside = False
        elif inside and (source := _SOURCE.match(line)):
            place = f"{source[1].replace(chr(92), '/').rpartition('/')[2][:80]}:{source[2]}"
        elif inside and (found := _INSTRUCTION.match(line) or _LABEL.match(line)):
            yield " ".join(found[1].split()), place if place != last else ""
            last, count = place, count + 1
            if count >= MAXIMUM_LINES:
                return


def _kernel_lines(text: Sequence[str], kernel: str) -> list[CodeLine]:
    lines: list[CodeLine] = []
    inside = False
    for line in text:
        if begin := _BEGIN.match(line):
            inside = kernel in (begin[1], begin[2])
        elif _END.match(line):
            inside = False
        elif inside and (found := _INSTRUCTION.match(line) or _LABEL.match(line)):
            lines.append(CodeLine.of(" ".join(found[1].split()), _NAME))
            if len(lines) >= MAXIMUM_LINES:
                break
    while lines and lines[-1].opcode in ("NOP", "BRA"):  # what fills the rest of the section
        lines.pop()
    return lines
