"""Where in a PyTorch program a launch is: the path of its module and its operator, told to the capture as ranges.

`replay capture --module`, `--op` and `--torch-stacks` install this in every Python of the application, once that has
imported PyTorch itself; nothing is imported here.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from replay.hints import Ranges

MODULES, OPERATORS = "torch.module", "torch.operator"  # domains of their ranges


class _Modules:
    """The global hooks of modules, which PyTorch calls around each forward."""

    def __init__(self, torch: Any) -> None:
        self._is_compiling = torch.compiler.is_compiling  # what a compiler traces has no ranges of its own
        self._ranges = Ranges(MODULES)
        self._thread = threading.local()
        hooks = torch.nn.modules.module
        hooks.register_module_forward_pre_hook(self._enter)
        hooks.register_module_forward_hook(self._leave, always_call=True)

    def _enter(self, module: Any, inputs: Any) -> None:
        if not self._is_compiling():
            self._push(module)

    def _push(self, module: Any) -> None:
        inner = getattr(module, "_orig_mod", module)  # of what torch.compile made of a module
        stack = self._thread.__dict__.setdefault("stack", [])
        if not stack:
            self._thread.root, self._thread.paths = inner, {}
        paths = self._thread.paths
        if id(inner) not in paths:
            paths.update((id(one), path) for path, one in self._thread.root.named_modules())
        # The outermost module has no path, nor has one that it does not hold.
        self._ranges.push(paths.get(id(inner)) or type(inner).__name__)
        stack.append(id(module))

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        if not self._is_compiling():
            self._pop(module)

    def _pop(self, module: Any) -> None:
        stack = self._thread.__dict__.get("stack", [])
        if id(module) not in stack:
            return
        while stack:
            self._ranges.pop()
            if stack.pop() == id(module):
                break
        if not stack:
            self._thread.root = self._thread.paths = None


def _follow_operators(torch: Any) -> None:
    """In this thread, and in those where it calls autograd: as a mode of dispatch, which takes every operator."""
    ranges = Ranges(OPERATORS)

    def dispatch(self: object, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ranges.push(func._schema.name)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            ranges.pop()

    mode = torch.utils._python_dispatch.TorchDispatchMode
    type("Operators", (mode,), {"__torch_dispatch__": dispatch})().__enter__()


def install(domains: str) -> None:
    """domains: those that are asked for, with commas. PyTorch has just been imported."""
    torch = sys.modules["torch"]
    if MODULES in domains.split(","):
        _Modules(torch)
    if OPERATORS in domains.split(","):
        _follow_operators(torch)
