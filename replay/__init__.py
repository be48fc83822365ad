"""Snapshot and replay of CUDA kernels.

`replay capture` wraps an application and writes one `.rsnap` file; `replay run` re-executes that file in a fresh
process and checks the outputs. The same is there for Python: `replay.open`, `replay.capture` and the names in
`__all__`, described in docs/library.md. The import and the command are `replay`, the distribution is `gpu-replay`.

Importing this package imports nothing else: each name is looked up when it is first used.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

try:
    from replay._version import __version__
except ImportError:  # read from a checkout, which was not built
    __version__ = "0+unknown"

# Public name -> module and name in it. `__init__.pyi` says the same to type checkers.
_PUBLIC = {
    "Buffer": "library.memory:Buffer",
    "Evaluation": "library.evaluating:Evaluation",
    "Launch": "library.launches:Launch",
    "Parameter": "library.launches:Parameter",
    "Result": "library.result:Result",
    "Snapshot": "library.snapshot:Snapshot",
    "Verdict": "library.verdict:Verdict",
    "capture": "library.capturing:capture",
    "captured_once": "library.capturing:captured_once",
    "check": "library.checking:check_corpus",
    "compare": "library.verdict:compare_paths",
    "history": "library.checking:history_of",
    "launch_under_shim": "library.capturing:launch_under_shim",
    "open": "library.snapshot:open_snapshot",
}
_PACKAGES = ("errors", "capture", "check", "compare", "history")  # what is named so is found there, too

__all__ = ["__version__", "errors", *_PUBLIC]  # noqa: PLE0604 -- names, which __getattr__ finds


class _Callable(ModuleType):
    """A package of this one with the name of a public function: calling it calls the function."""

    def __call__(self, *arguments: object, **named: object) -> object:
        return _found(self.__name__.rpartition(".")[2])(*arguments, **named)


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if name in _PUBLIC and isinstance(value, ModuleType):  # `import` has found the package
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def _found(name: str) -> Callable[..., object]:
    module, _, function = _PUBLIC[name].partition(":")
    found: Callable[..., object] = getattr(import_module(f"{__name__}.{module}"), function)
    return found


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = _found(name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
