#!/usr/bin/env python3
"""Makes the JSON Schema (draft 2020-12) files of this folder, and the list of documents in docs/machine-readable.md.

usage: docs/schemas/generate.py [--check]

Everything follows from `replay/results/documents.py` and the dataclasses that it names: fields and types from their
annotations; what a field means from the docstring of its class (`name: text.` or `name, other: text.`) or from the
comment on its line; its unit from the end of its name. What means the same everywhere is in words.py, once.
--check: exit status 1 when a file is not what it would be.
Exit status 1, too, when a field is described nowhere, or a word is used nowhere.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
import sys
import textwrap
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PAGE = ROOT / "docs" / "machine-readable.md"
sys.path.insert(0, str(ROOT))

sys.path.insert(0, str(FOLDER))

from words import WORDS  # noqa: E402

from replay.results.documents import ALL, Document  # noqa: E402

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BEGIN, END = "<!-- documents: made by docs/schemas/generate.py -->", "<!-- end of documents -->"
COMMENT = (
    "Exactly what this version of replay writes. Later versions add fields and keep the number; a reader passes over "
    "fields that it does not know (docs/machine-readable.md)."
)
UNITS = {
    "ns": "nanoseconds",
    "s": "seconds",
    "bytes": "bytes",
    "mhz": "MHz",
    "w": "watts",
    "utc": "ISO 8601, UTC",
}


def schema_of(document: Document) -> dict[str, Any]:
    """The JSON Schema of a document."""
    types_ = Definitions()
    model = document.model_type()
    if document.items:
        members = {
            document.items: {"type": "array", "items": types_.of(model), "description": document.about}
        }
        body: dict[str, Any] = {"properties": members, "required": [document.items]}
    else:
        body = types_.body(model, model.__name__)
    name = {"const": document.schema, "description": _sentence(WORDS["schema"])}
    result = {
        "$schema": DIALECT,
        "$id": identifier(document),
        "$comment": COMMENT,
        "title": document.schema,
        "description": f"{document.about} Written by: {document.written_by}.",
        "type": "object",
        "properties": {"schema": name, **body["properties"]},
        "required": ["schema", *body["required"]],
        "additionalProperties": False,
    }
    if types_.definitions:
        result["$defs"] = dict(sorted(types_.definitions.items()))
    return result


def identifier(document: Document) -> str:
    """`replay.ls.calls/1` -> `replay/ls.calls/1.x.json`: of every version 1."""
    name, version = document.schema.removeprefix("replay.").split("/")
    return f"replay/{name}/{version}.x.json"


def file_name(document: Document) -> str:
    """`replay.ls.calls/1` -> `ls.calls.1.json`."""
    return document.schema.removeprefix("replay.").replace("/", ".") + ".json"


class Definitions:
    """JSON Schemas of Python types; dataclasses become definitions that are referred to."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """A type as a schema. Raises TypeError for one that JSON output is not made of."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments)
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is tuple:
            return {
                "type": "array",
                "prefixItems": [self.of(item) for item in arguments],
                "minItems": len(arguments),
                "maxItems": len(arguments),
            }
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._reference(kind)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [item.value for item in kind]}
        simple = {
            int: "integer",
            float: "number",
            str: "string",
            bool: "boolean",
            type(None): "null",
            Path: "string",
        }
        if kind in simple:
            return {"type": simple[kind]}
        if kind is bytes:
            return {"type": "string", "pattern": "^([0-9a-f]{2})*$", "description": "Bytes in hexadecimal."}
        if kind in (Any, object):
            return {}
        raise TypeError(f"no JSON Schema of {kind}")

    def _union(self, options: tuple[Any, ...]) -> dict[str, Any]:
        found = [self.of(item) for item in options]
        if all(set(item) == {"type"} for item in found):
            return {"type": [item["type"] for item in found]}
        return {"anyOf": found}

    def _reference(self, kind: type) -> dict[str, Any]:
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}  # it may refer to itself
            self.definitions[kind.__name__] = {
                "description": summary(kind),
                "type": "object",
                **self.body(kind, kind.__name__),
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def body(self, kind: type, name: str) -> dict[str, Any]:
        """Properties and required names of a dataclass: a document has all of them, absent values as null."""
        hints = typing.get_type_hints(kind)
        texts = descriptions(kind)
        properties = {}
        for item in dataclasses.fields(kind):
            value = self.of(hints[item.name])
            text = self._word(f"{name}.{item.name}") or texts.get(item.name) or self._word(item.name)
            unit = UNITS.get(item.name.rpartition("_")[2]) if "_" in item.name else None
            if unit:
                value["unit"] = unit
            if text:
                value["description"] = text
            properties[item.name] = value
        return {"properties": properties, "required": list(properties)}

    def _word(self, key: str) -> str:
        if key in WORDS:
            USED.add(key)
        return _sentence(WORDS.get(key, ""))


USED = {"schema"}  # words that some document needed


def summary(kind: type) -> str:
    """The docstring of a class up to its first field."""
    return _sentence(_pieces(kind)[0])


@cache
def descriptions(kind: type) -> dict[str, str]:
    """What each field of a dataclass means, as its class or a base of it says."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            found.update(_comments(base))
            pieces = _pieces(base)
            for names, text in zip(pieces[1::2], pieces[2::2], strict=True):
                for name in _names(names, base):
                    found[name] = _sentence(text)
    return found


def _names(text: str, kind: type) -> list[str]:
    """`low, high` or `spill_*`, of the fields of a class."""
    fields = [item.name for item in dataclasses.fields(kind)]
    wanted = [name.strip().replace("*", ".*") for name in re.split(r",| and ", text)]
    return [name for name in fields if any(re.fullmatch(pattern, name) for pattern in wanted)]


def _pieces(kind: type) -> list[str]:
    """The docstring, split at fields: the text before, then alternately names and text."""
    text = " ".join((inspect.getdoc(kind) or "").split())
    fields = "|".join(item.name for item in dataclasses.fields(kind))
    name = rf"(?:{fields}|[a-z]+_[a-z_]*\*[a-z_]*|[a-z_]*\*_[a-z]+)"
    return re.split(rf"(?:^|(?<=[.;)] ))({name}(?:(?:, | and ){name})*): ", text)


@cache
def _comments(kind: type) -> dict[str, str]:
    """Comments on the lines of fields, or on a line of their own above."""
    source = textwrap.dedent(inspect.getsource(kind))
    lines = source.splitlines()
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            behind = lines[item.lineno - 1 : item.end_lineno]
            comments = [
                match[1] for line in behind if (match := re.search(r"  # (?!type:|noqa|fmt)(.*)", line))
            ]
            above = lines[item.lineno - 2].strip()
            if not comments and above.startswith("# "):
                comments = [above[2:]]
            if comments:
                found[item.target.id] = _sentence(" ".join(comments))
    return found


def _sentence(text: str) -> str:
    text = re.sub(r"[;,]$|(?<!\.)\.$", "", text.strip()).replace("None", "null")
    return text if not text or text.endswith(".") else text + "."


def undescribed(document: Document) -> list[str]:
    """Fields of a document of which nothing says what they mean."""
    schema = schema_of(document)
    kinds = {schema["title"]: schema, **schema.get("$defs", {})}
    return [
        f"{kind}.{name}"
        for kind, value in kinds.items()
        for name, item in value["properties"].items()
        if "description" not in item
    ]


def table() -> str:
    """The list of documents for docs/machine-readable.md."""
    rows = [
        f"| `{item.schema}` | {_code(item.written_by)} | {item.about} | [{name}](schemas/{name}) |"
        for item in ALL
        for name in [file_name(item)]
    ]
    return "\n".join(
        [BEGIN, "", "| `schema` | written by | | JSON Schema |", "| --- | --- | --- | --- |", *rows, "", END]
    )


def _code(text: str) -> str:
    """`run --json, several windows` with the command as code."""
    command, comma, rest = text.partition(",")
    return text if text.startswith("every") else f"`{command}`{comma}{rest}"


def files() -> dict[Path, str]:
    """Every generated file with what belongs in it."""
    found = {
        FOLDER / file_name(item): json.dumps(schema_of(item), indent=1, ensure_ascii=False) + "\n"
        for item in ALL
    }
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    found[PAGE] = before + table() + rest.partition(END)[2]
    return found


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    expected = files()
    faults = [f"{name} is described nowhere" for item in ALL for name in undescribed(item)]
    faults += [f"words.py: {name} is used nowhere" for name in WORDS if name not in USED]
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    present = {*FOLDER.glob("*.json"), PAGE}
    stale = [path for path, text in expected.items() if not path.exists() or path.read_text() != text]
    stale += sorted(present - set(expected))
    for path in stale:
        if arguments:
            print(
                f"out of date: {path.relative_to(ROOT)}; run python docs/schemas/generate.py", file=sys.stderr
            )
        elif path in expected:
            path.write_text(expected[path])
        else:
            path.unlink()
    return 1 if faults or (arguments and stale) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
