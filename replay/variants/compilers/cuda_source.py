"""Compiles a .cu of a variant: through NVRTC where cuda.bindings and libnvrtc are installed, else through nvcc."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from replay.errors import EngineError
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.compilers.toolkits import find_tools, include_folders
from replay.variants.compilers.tools import Ran, refusal, run_tool
from replay.variants.images import BuiltImage, read_file

Run = Callable[[list[str]], Ran]
_MISSING = 77  # exit status of the child when there is no NVRTC

# In a child, since NVRTC is a library that loads others, and a source of the user's may make it fail badly.
_NVRTC = """
import sys
source, target, architecture, name, *options = sys.argv[1:]
try:
    from cuda.bindings import nvrtc
    version = nvrtc.nvrtcVersion()
except Exception as error:
    print(error, file=sys.stderr)
    sys.exit(77)
def check(answer):
    if int(answer[0]):
        print(nvrtc.nvrtcGetErrorString(answer[0])[1].decode(), file=sys.stderr)
        sys.exit(1)
    return answer[1] if len(answer) > 1 else None
text = open(source, "rb").read()
program = check(nvrtc.nvrtcCreateProgram(text, name.encode(), 0, [], []))
options = [option.encode() for option in (architecture, *options)]
status = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program)))
check(nvrtc.nvrtcGetProgramLog(program, log))
sys.stderr.write(bytes(log).rstrip(b"\\0").decode("utf-8", "replace"))
if int(status):
    sys.exit(1)
kind = "CUBIN" if "=sm_" in architecture else "PTX"
data = bytearray(check(getattr(nvrtc, f"nvrtcGet{kind}Size")(program)))
check(getattr(nvrtc, f"nvrtcGet{kind}")(program, data))
open(target, "wb").write(bytes(data).rstrip(b"\\0") if kind == "PTX" else bytes(data))
print(f"{version[1]}.{version[2]}")
"""


def compile_source(
    file: str, architecture: int, *, want_ptx: bool, sandbox: Sandbox | None = None
) -> BuiltImage:
    """PTX or a cubin for a device of this architecture. sandbox: for a stranger's source, which may include only CUDA's
    headers and those of the system. Raises FileError, BuildError, EngineError."""
    text = read_file(file)
    kind = "compute" if want_ptx else "sm"
    with tempfile.TemporaryDirectory(prefix="replay-compile-") as folder:
        target = Path(folder) / "image"
        given = file
        if sandbox is not None:  # which sees nothing of the folder that the file is in
            given = str(Path(folder) / f"candidate{Path(file).suffix}")
            Path(given).write_bytes(text)
        run = run_tool if sandbox is None else partial(sandbox.run, folder=Path(folder))
        through_nvrtc = _through_nvrtc(run, given, target, f"{kind}_{architecture}", Path(file).name)
        if through_nvrtc.status == 0:
            version = through_nvrtc.output.decode("ascii", "replace").split()[-1]
            made = f"NVRTC {version} -arch={kind}_{architecture}"
            return BuiltImage(target.read_bytes(), Path(file).name, made, source_text=text)
        tools = find_tools("nvcc")
        if not tools:
            if through_nvrtc.status == _MISSING:
                raise EngineError(
                    "a .cu needs a compiler, and this machine has neither NVRTC nor nvcc", where=file,
                    next="`pip install nvidia-cuda-nvrtc`, or compile it to PTX elsewhere",
                )  # fmt: skip
            raise refusal(f"NVRTC refused it: {through_nvrtc.first_error}", through_nvrtc, where=file)
        # NVRTC knows only device code; nvcc takes whole programs.
        nvcc = str(tools[0])
        form = "-ptx" if want_ptx else "-cubin"
        ran = run([nvcc, form, f"-arch={kind}_{architecture}", "-o", str(target), "-x", "cu", given])
        if given != file:
            ran = replace(ran, log=ran.log.replace(given, Path(file).name))  # as the user knows it
        if ran.status != 0 or not target.is_file():
            raise refusal(f"nvcc refused it: {ran.first_error}", ran, where=file)
        made = f"nvcc {_release(nvcc)} -arch={kind}_{architecture}"
        return BuiltImage(target.read_bytes(), Path(file).name, made, source_text=text)


def _through_nvrtc(run: Run, file: str, target: Path, architecture: str, name: str) -> Ran:
    folders = [str(Path(file).absolute().parent), *include_folders()]
    options = [f"--include-path={folder}" for folder in folders]
    given = [file, str(target), f"--gpu-architecture={architecture}", name]
    return run([sys.executable, "-c", _NVRTC, *given, *options])


def _release(nvcc: str) -> str:
    said = run_tool([nvcc, "--version"], 60).output.decode("utf-8", "replace")
    return next(
        (word[1:] for word in said.split() if word.startswith("V") and word[1:2].isdigit()), ""
    ).rstrip(",")
