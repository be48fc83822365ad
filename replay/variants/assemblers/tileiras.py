"""What tileiras makes of Tile IR."""

from __future__ import annotations

from collections.abc import Iterable

from replay.variants.assemblers.running import Options, assembled, flags_of
from replay.variants.assemblers.tools import Tool
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.compilers.tools import refusal
from replay.variants.images import BuiltImage
from replay.variants.jit import JitOption

_OPTIONS: Options = {
    "opt-level": lambda value: [f"--opt-level={value}"],
    "lineinfo": lambda value: ["--lineinfo"] if value else [],
    "debug-info": lambda value: ["--device-debug"] if value else [],
}


def assemble(
    tool: Tool,
    bytecode: bytes,
    source: str,
    architecture: int,
    options: Iterable[JitOption] = (),
    sandbox: Sandbox | None = None,
) -> BuiltImage:
    """The cubin of Tile IR bytecode for a device. sandbox: for a stranger's bytecode. Raises BuildError, EngineError
    when it does not end."""
    flags = [f"--gpu-name=sm_{architecture}", *flags_of("tileiras", _OPTIONS, options)]
    prefix = tool.path.resolve().parent.parent
    beside = [prefix / name for name in ("bin", "lib", "nvvm")]  # where it looks for ptxas and libnvvm
    ran, data = assembled([str(tool.path), *flags], "kernel.tilebc", bytecode, sandbox, beside)
    if ran.status != 0 or not data:
        advice = "give a version that is as new as the bytecode, and replay on a device that it knows"
        if not any((prefix / name).exists() for name in ("lib/libnvvm.so.4", "nvvm/lib64/libnvvm.so")):
            advice = (
                f"it finds no libnvvm below {prefix}: pip install nvidia-nvvm nvidia-cuda-nvcc of its release"
            )
        raise refusal(
            f"tileiras {tool.version} refused {source}: {ran.first_error}",
            ran,
            where="--tileiras",
            next=advice,
        )
    return BuiltImage(data, source, f"tileiras {tool.version} {' '.join(flags)}")
