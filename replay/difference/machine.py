"""The machine code of one kernel as the user's own `nvdisasm` or `cuobjdump` shows it. Nothing is disassembled here,
and what they print is kept nowhere."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
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
        if self._tool is None:
            raise EngineError(
                "neither nvdisasm nor cuobjdump was found", next="they come with the CUDA toolkit"
            )
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            options = ["-c"] if self._is_nvdisasm else ["-sass"]
            ran = run_tool([str(self._tool), *options, file.name], TIMEOUT_S)
        if ran.status != 0:
            raise EngineError(f"ended with status {ran.status}: {ran.first_error}", where=self._tool)
        return _kernel_lines(ran.output.decode("utf-8", "replace").splitlines(), kernel)


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
