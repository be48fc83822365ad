"""Findings as SARIF 2.1.0, which code scanning reads: https://docs.oasis-open.org/sarif/sarif/v2.1.0/."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import replay
from replay.report.findings import memory_of, values_of, words_of
from replay.results.findings import FindingSide, MemoryCheck, MemoryFinding

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ENDED = "the launch ended in this error"


def sarif(found: MemoryCheck) -> str:
    """One run of one tool. A place is a file and its line where the PTX names them; folders are not known."""
    results = [*map(_finding, found.findings), *_failed(found)]
    rules = {result["ruleId"]: result["message"]["text"].partition(":")[0] for result in results}
    run = {
        "tool": {
            "driver": {
                "name": "replay",
                "version": replay.__version__,
                "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in sorted(rules.items())],
            }
        },
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": list(_left_out(found))}],
        "results": results,
    }  # fmt: skip
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _finding(item: MemoryFinding) -> dict[str, Any]:
    what = words_of(item)
    memory = f", {memory_of(item)}" if item.space else ""
    values = f", {values_of(item)}" if values_of(item) else ""
    others = [(item.earlier_kernel or item.kernel, side) for side in item.sides[:-1]]
    if item.writer is not None:
        others.append((item.writer_kernel or item.kernel, item.writer))
    return {
        "ruleId": f"{item.check}/{item.kind}",
        "level": "error" if item.is_fault else "note",
        "message": {"text": f"{what}: in {item.kernel}{memory}{values}, {item.count} times"},
        # The later side is where a barrier would have to come before.
        "locations": [_location(item.kernel, item.sides[-1])],
        "relatedLocations": [_location(kernel, side) for kernel, side in others],
        "partialFingerprints": {"replay/1": _fingerprint(item)},
    }


def _failed(found: MemoryCheck) -> Iterator[dict[str, Any]]:
    for item in found.failed:
        yield {
            "ruleId": f"error/{item.status}",
            "level": "error",
            "message": {"text": f"{_ENDED}: {item.message}"},
            "locations": [{"logicalLocations": [{"fullyQualifiedName": item.kernel, "kind": "function"}]}],
        }


def _left_out(found: MemoryCheck) -> Iterator[dict[str, Any]]:
    for item in found.unchecked:
        text = f"{item.kernel} is not checked for {item.check}: {item.why}"
        yield {"level": "warning", "message": {"text": text}}


def _location(kernel: str, side: FindingSide) -> dict[str, Any]:
    where = f"PTX line {side.ptx_line}" if side.ptx_line or side.block else "a call of the host"
    where += f", block {side.block}, thread {side.thread}" if side.block else ""
    text = f"{where}: {side.instruction}"
    place: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": kernel, "kind": "function"}],
        "message": {"text": text},
    }
    if side.file:
        uri = quote(side.file, safe="", errors="replace")
        place["physicalLocation"] = {
            "artifactLocation": {"uri": uri},
            "region": {"startLine": max(side.line, 1)},
        }
    return place


def _fingerprint(item: MemoryFinding) -> str:
    """What stays when lines move: the kernel, the kind and the instructions."""
    parts = [item.kernel, item.check, item.kind, *(" ".join(side.instruction.split()) for side in item.sides)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
