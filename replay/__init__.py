"""Snapshot and replay of CUDA kernels.

`replay capture` wraps an application and writes one `.rsnap` file; `replay run` re-executes that file in a
fresh process and checks the outputs. The import and the command are `replay`, the distribution is `gpu-replay`.
"""

__version__ = "0.1.0"
