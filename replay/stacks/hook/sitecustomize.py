"""Imported by Python at its start where this folder is on PYTHONPATH: libnvJitLink seems not to be installed.

numba-cuda and cuda.core then link through the driver, which is given PTX. With nvJitLink they would hand over machine
code, and neither has a setting against it. Nothing else changes; a sitecustomize of the user's own runs after this.
"""

import os
import sys
from collections.abc import Callable
from types import ModuleType

_LOADER = "cuda.pathfinder"  # through which cuda.bindings finds the libraries of the toolkit
_HIDDEN = "nvJitLink"


class _After:
    """Calls `then` with a module when the program has imported it."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name, self._then = name, then

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self._name:
            return None
        # Not `importlib.util.find_spec`, which would ask here again. Programs look without importing, so this stays.
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)  # type: ignore[arg-type, comparison-overlap]
        specification = next((found for found in others if found is not None), None)
        if specification is not None and specification.loader is not None:
            execute = specification.loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:  # type: ignore[comparison-overlap]
                    sys.meta_path.remove(self)  # type: ignore[arg-type]
                    self._then(module)

            specification.loader.exec_module = execute_and_call  # type: ignore[method-assign]
        return specification


def _hide(pathfinder: ModuleType) -> None:
    load = pathfinder.load_nvidia_dynamic_lib

    def load_nvidia_dynamic_lib(libname: str) -> object:
        if libname == _HIDDEN:
            raise pathfinder.DynamicLibNotFoundError(
                "nvJitLink is hidden by replay, for a driver that takes only PTX"
            )
        return load(libname)

    pathfinder.load_nvidia_dynamic_lib = load_nvidia_dynamic_lib  # type: ignore[attr-defined]


def _run_the_users_own() -> None:
    # This folder leaves the path, so that the program finds there what it would have found without it.
    here = __file__.rpartition("/")[0]
    sys.path[:] = [path for path in sys.path if path != here]
    mine = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = mine


def _hint(module: str, what: str, *arguments: str) -> None:
    # The application's Python need not have this package installed: its own folder is searched, only for this.
    package = __file__.rsplit("/", 4)[0]
    sys.path.append(package)
    try:
        from importlib import import_module

        import_module(f"replay.hints.{module}").install(*arguments)
    except Exception as error:
        sys.stderr.write(f"replay: {what} of PyTorch are not known: {error}\n")
    finally:
        sys.path.remove(package)


if os.environ.get("REPLAY_HOOK_NVJITLINK", "1") == "1":
    sys.meta_path.insert(0, _After(_LOADER, _hide))  # type: ignore[arg-type]
if os.environ.get("REPLAY_HOOK_TORCH_BLOCKS") == "1":
    _hint("torch", "blocks")
if _ranges := os.environ.get("REPLAY_HOOK_TORCH_RANGES", ""):
    _follow = _After("torch", lambda torch: _hint("torch_ranges", "modules and operators", _ranges))
    sys.meta_path.insert(0, _follow)  # type: ignore[arg-type]
_run_the_users_own()
