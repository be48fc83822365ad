"""Snapshot and replay of CUDA kernels.

`replay capture` wraps an application and writes one `.rsnap` file; `replay run` re-executes that file in a
fresh process and checks the outputs. The import and the command are `replay`, the distribution is `gpu-replay`.
"""

try:
    from replay._version import __version__
except ImportError:  # read from a checkout, which was not built
    __version__ = "0+unknown"

__all__ = ["__version__"]
