"""Kernels of compilers that leave nothing on the disk: captured, and swapped by an edited source that the same compiler
compiled with the same options."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.util import find_spec

import pytest

from replay.errors import ExitCode

# `ptx(statement)` gives the PTX of the kernel with this right side; `launch` is what the application does with it.
NVRTC = """
    import ctypes, sys
    import numpy as np
    from cuda.bindings import driver as cu, nvrtc

    OPTIONS = b"--gpu-architecture=compute_80", b"-DFACTOR=3.0f", b"--fmad=false"
    SOURCE = '''extern "C" __global__ void scale(float *x, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) x[i] = STATEMENT;
    }'''

    def ptx(statement):
        source = SOURCE.replace("STATEMENT", statement).encode()
        error, program = nvrtc.nvrtcCreateProgram(source, b"scale.cu", 0, [], [])
        assert not nvrtc.nvrtcCompileProgram(program, len(OPTIONS), list(OPTIONS))[0]
        text = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
        nvrtc.nvrtcGetPTX(program, text)
        return text

    def launch():
        begin()
        scale = check(cu.cuModuleGetFunction(check(cu.cuModuleLoadData(ptx("x[i] * FACTOR + 1.0f"))), b"scale"))
        memory, x = int(check(cu.cuMemAlloc(400))), np.arange(100, dtype=np.float32)
        check(cu.cuMemcpyHtoD(memory, x.ctypes.data, 400))
        check(cu.cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, 0,
                                ((memory, 100), (ctypes.c_void_p, ctypes.c_int)), 0))
        check(cu.cuCtxSynchronize())

    same, other = "1.0f + FACTOR * x[i]", "x[i] * FACTOR + 2.0f"
"""
NUMBA = """
    import sys
    import numpy as np
    from numba import cuda, float32, int32

    def compiled(statement):
        names = {"cuda": cuda}
        exec(f"def scale(x, factor):\\n i = cuda.grid(1)\\n if i < x.shape[0]: x[i] = {statement}", names)
        return names["scale"]

    def ptx(statement):
        text, _ = cuda.compile_ptx(compiled(statement), (float32[::1], float32), fastmath=True, cc=(8, 0))
        return text.encode()

    def launch():
        x = cuda.to_device(np.arange(100, dtype=np.float32))
        cuda.jit(fastmath=True)(compiled("x[i] * factor + 1"))[1, 128](x, np.float32(3))
        cuda.synchronize()

    same, other = "1 + factor * x[i]", "x[i] * factor + 2"
"""
# Its own launch needs a GPU, for the CUDA runtime is linked into it; the driver API loads what it compiled.
WARP = """
    import ctypes, importlib, pathlib, struct, sys
    import numpy as np
    import warp as wp
    from cuda.bindings import driver as cu

    wp.config.kernel_cache_dir, wp.config.quiet = "cache", True
    KERNEL = '''import warp as wp
    wp.set_module_options({"enable_backward": False, "fast_math": True})
    @wp.kernel
    def scale(x: wp.array(dtype=float), factor: float):
        i = wp.tid()
        x[i] = STATEMENT
    '''

    def ptx(statement):
        pathlib.Path("kernel.py").write_text(KERNEL.replace("STATEMENT", statement))
        sys.path.insert(0, ".")
        module, folder = importlib.import_module("kernel"), "-".join(["out", *sys.argv[1:]])
        # With hashes in them, names of the module's variables would differ from those captured.
        wp.compile_aot_module(module, arch=80, module_dir=folder, use_ptx=True, strip_hash=True)
        (file,) = pathlib.Path(folder).glob("*.ptx")
        return file.read_bytes()

    def launch():
        begin()
        text = ptx("x[i] * factor + 1.0")
        entry = text.partition(b".entry ")[2].partition(b"(")[0]
        scale = check(cu.cuModuleGetFunction(check(cu.cuModuleLoadData(text)), entry))
        memory, x = int(check(cu.cuMemAlloc(400))), np.arange(100, dtype=np.float32)
        check(cu.cuMemcpyHtoD(memory, x.ctypes.data, 400))
        given = (
            ctypes.create_string_buffer(struct.pack("<I4xQQ", 100, 100, 1), 24),  # launch_bounds_t<1>
            ctypes.create_string_buffer(struct.pack("<QQ9i", memory, 0, 100, 0, 0, 0, 4, 0, 0, 0, 1), 56),  # array_t
            ctypes.c_float(3),
        )
        places = (ctypes.c_void_p * 3)(*map(ctypes.addressof, given))
        check(cu.cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, 0, ctypes.addressof(places), 0))
        check(cu.cuCtxSynchronize())

    same, other = "1.0 + factor * x[i]", "x[i] * factor + 2.0"
"""
ENDING = """
    def check(answer):
        assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
        return answer[1] if len(answer) == 2 else answer[1:]

    def begin():
        check(cu.cuInit(0))
        check(cu.cuCtxSetCurrent(check(cu.cuDevicePrimaryCtxRetain(0))))

    if len(sys.argv) > 1:
        with open(f"{sys.argv[1]}.ptx", "wb") as file:
            file.write(ptx(globals()[sys.argv[1]]).rstrip(b"\\0"))
    else:
        launch()
"""


def require_nvrtc():
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):  # a library of the toolkit, loaded at the first call
        pytest.skip("needs NVRTC: pip install 'gpu-replay[test,stacks]'")


@pytest.mark.parametrize(
    ("program", "needs"),
    [(NVRTC, ""), (NUMBA, "numba_cuda"), (WARP, "warp")],
    ids=["nvrtc", "numba", "warp"],
)
def test_kernel_is_swapped_by_an_edited_source(replay, program, needs):
    if program == NVRTC:
        require_nvrtc()
    elif find_spec(needs) is None:
        extra = "frameworks" if needs == "warp" else "stacks"
        pytest.skip(f"needs {needs}: pip install 'gpu-replay[test,{extra}]'")
    path = replay.folder / "program.py"
    path.write_text(textwrap.dedent(program) + textwrap.dedent(ENDING))
    replay.capture("--kernel", "scale", application=[sys.executable, str(path)])
    for name, status in (("same", ExitCode.DONE), ("other", ExitCode.GATE_FAILED)):
        subprocess.run([sys.executable, str(path), name], check=True, cwd=replay.folder)
        replay("run", "x.rsnap", "--quick", "--swap", f"{name}.ptx", status=status)


def test_options_of_nvrtc_are_written_into_the_source(replay):
    """The driver is not told them, so `--swap` of a `.cu` does not know them (docs/limits.md)."""
    require_nvrtc()
    path = replay.folder / "program.py"
    path.write_text(textwrap.dedent(NVRTC) + textwrap.dedent(ENDING))
    replay.capture("--kernel", "scale", application=[sys.executable, str(path)])
    source = (
        'extern "C" __global__ void scale(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] = %s; }'
    )
    (replay.folder / "edited.cu").write_text(source % "1.0f + FACTOR * x[i]")
    done = replay("run", "x.rsnap", "--quick", "--swap", "edited.cu", status=ExitCode.COULD_NOT)
    assert "FACTOR" in done.stderr
    (replay.folder / "edited.cu").write_text("#define FACTOR 3.0f\n" + source % "1.0f + FACTOR * x[i]")
    replay("run", "x.rsnap", "--quick", "--swap", "edited.cu")
