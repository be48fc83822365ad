"""Programs that make machine code of a captured image: found in a chosen version or fetched, and run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.variants.assemblers.tools import Assembler, Tool
    from replay.variants.compilers.sandbox import Sandbox
    from replay.variants.images import BuiltImage
    from replay.variants.jit import JitOption


def assemble_with(
    kind: Assembler,
    tool: Tool,
    module: bytes,
    source: str,
    architecture: int,
    options: Iterable[JitOption] = (),
    sandbox: Sandbox | None = None,
) -> BuiltImage:
    """The cubin that this assembler makes of a module that it takes. source: of the module, for people. Raises
    BuildError, EngineError, ImageError."""
    from replay.variants.assemblers import ptxas, tileiras

    by_name = {"ptxas": ptxas.assemble, "tileiras": tileiras.assemble}
    return by_name[kind.name](tool, module, source, architecture, options, sandbox)
