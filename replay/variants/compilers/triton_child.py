"""Runs in a process of its own, under the chosen Triton: compiles one kernel, or says which configurations a file has.

Triton is large, may be of another version than one that is loaded elsewhere, and a .py is the user's program. Asked by
one JSON text on the command line (`replay/variants/compilers/triton.py`), answers with files in the folder named there.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any, NoReturn

# llvm::cl::ParseCommandLineOptions(int, char const* const*, StringRef, raw_ostream*, FileSystem*, char const*, bool)
_PARSER = (
    "_ZN4llvm2cl23ParseCommandLineOptionsEiPKPKcNS_9StringRefEPNS_11raw_ostreamEPNS_3vfs10FileSystemES2_b"
)
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None}


def _refuse(what: str) -> NoReturn:
    sys.exit(f"error: {what}")


def _value(text: str) -> Any:
    """Of a constant: a number, a truth value, None, a type of triton.language (`tl.float16`), else the text."""
    import triton.language as tl

    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    found = getattr(tl, text.rpartition(".")[2], None)
    return found if isinstance(found, tl.dtype) else text


def _function(asked: dict[str, Any]) -> tuple[Any, Any]:
    """The @triton.jit function of the file, and what it is wrapped in: @triton.autotune, @triton.heuristics."""
    import triton

    sys.path.insert(1, os.path.dirname(asked["source"]))
    sys.argv = [asked["source"]]
    before: Any = runpy.run_path(asked["source"], run_name="replay_variant").get(asked["kernel"])
    function = before
    while not isinstance(function, triton.JITFunction):
        if not hasattr(function, "fn"):
            _refuse(f"it defines no @triton.jit function {asked['kernel']}")
        function = function.fn
    return before, function


def _configurations(asked: dict[str, Any]) -> list[dict[str, str]]:
    """Those of @triton.autotune, as texts by name."""
    import triton.language as tl

    found, _ = _function(asked)
    while found is not None and not hasattr(found, "configs"):
        found = getattr(found, "fn", None)
    texts = []
    for configuration in getattr(found, "configs", []):
        given = configuration.all_kwargs()
        if configuration.pre_hook is not None:
            given["pre_hook"] = "yes"
        texts.append(
            {
                str(name): value.name if isinstance(value, tl.dtype) else str(value)
                for name, value in given.items()
            }
        )
    return texts


def _llvm_options(texts: list[str]) -> None:
    """Hand over options to the LLVM that is linked into Triton. Where it hides its own parser, as before Triton 3.9,
    switches alone are taken, as Triton does. Neither goes on after an option that LLVM does not know."""
    import ctypes

    from triton._C import libtriton

    library = ctypes.CDLL(libtriton.__file__)
    if hasattr(library, _PARSER):
        words = [b"--llvm-options", *(text.encode() for text in texts)]
        values = (ctypes.c_char_p * len(words))(*words)
        nothing = ctypes.c_void_p(0)
        # The overview is a StringRef, which is passed as a pointer and a length. Errors without a stream of their own
        # go to stderr, and end the process.
        getattr(library, _PARSER)(
            len(words), values, nothing, ctypes.c_size_t(0), nothing, nothing, nothing, ctypes.c_bool(False)
        )
        return
    if more := [text for text in texts if "=" in text]:
        _refuse(f"this Triton takes only options of LLVM without a value, not {more[0]}")
    llvm = libtriton.llvm
    translate = llvm.translate_to_asm

    def translated(
        text: Any, triple: Any, processor: Any, features: Any, flags: list[str], *rest: Any
    ) -> Any:
        return translate(
            text, triple, processor, features, [*flags, *(item.lstrip("-") for item in texts)], *rest
        )

    llvm.translate_to_asm = translated


def _source_of_file(asked: dict[str, Any], target: Any, options: dict[str, Any]) -> Any:
    """The function of a .py with types for its parameters; of the constants what is no parameter is an option."""
    from triton.compiler import ASTSource

    _, function = _function(asked)
    types, aligned = asked["types"], asked["aligned"]
    given = {name: _value(text) for name, text in asked["constants"]}
    names = [item.name for item in function.params if item.is_constexpr]
    own = {item.name for item in function.params if item.is_constexpr or item.name not in types}
    others = {name: given.pop(name) for name in list(given) if name not in own}
    _take_options(target, others, options, f"{asked['kernel']} has no constant", names)
    constants, signature, attributes = {}, {}, {}
    for place, item in enumerate(function.params):
        if item.is_constexpr or item.name not in types:
            default = item.default if item.has_default else None if item.is_constexpr else 1
            value = given.pop(item.name, default)
            if value is None and item.is_constexpr and not item.has_default:
                _refuse(
                    f"{item.name} is a constant and has no default in the file: say which, as {item.name}=VALUE"
                )
            constants[(place,)] = value
            signature[item.name] = "constexpr"
        else:
            signature[item.name] = types[item.name]
            if item.name in aligned:
                attributes[(place,)] = [["tt.divisibility", 16]]
    return ASTSource(function, signature, constants, attributes)


def _take_options(
    target: Any, given: dict[str, Any], options: dict[str, Any], why: str, names: list[str]
) -> None:
    """What is named as a constant and is an option of Triton's, as maxnreg. Anything else is refused."""
    from triton.compiler.compiler import make_backend

    known = type(make_backend(target).parse_options({})).__dataclass_fields__
    for name, value in given.items():
        if name not in known:
            _refuse(f"{why} {name}" + (f"; it has {', '.join(names)}" if names else ""))
        options[name] = value


def _compile(asked: dict[str, Any]) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", asked["architecture"], 32)
    source, options = asked["source"], asked["options"]
    if asked["llvm_options"]:
        _llvm_options(asked["llvm_options"])
    if source.endswith(".py"):
        source = _source_of_file(asked, target, options)
    else:
        given = {name: _value(text) for name, text in asked["constants"]}
        _take_options(target, given, options, "in IR the constants are numbers: it has no", [])
    if isinstance(source, str) and source.endswith(".llir"):
        from triton._C.libtriton import llvm

        llvm.init_targets()
        backend = make_backend(target)
        with open(source) as file:
            text = file.read()
        ptx = backend.make_ptx(text, {}, backend.parse_options(options), asked["architecture"])
        told = {}
    else:
        compiled = triton.compile(source, target=target, options=options)
        ptx = compiled.asm["ptx"]
        told = {"shared": compiled.metadata.shared}
    with open(os.path.join(asked["folder"], "kernel.ptx"), "w") as file:
        file.write(ptx.decode() if isinstance(ptx, bytes) else ptx)
    return {"version": triton.__version__, **told}


def _main() -> None:
    asked = json.loads(sys.argv[1])
    for name in [name for name in os.environ if name.startswith("TRITON_")]:
        del os.environ[name]
    os.environ["TRITON_CACHE_DIR"] = os.path.join(asked["folder"], "cache")
    sys.path.insert(0, asked["triton"])
    told = {"configurations": _configurations(asked)} if asked["configurations"] else _compile(asked)
    with open(os.path.join(asked["folder"], "told.json"), "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    _main()
