"""JUnit XML, as build servers read it. Control characters, which XML cannot hold, are shown."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections.abc import Sequence
from typing import Literal, NamedTuple

from replay.text import shown


class Case(NamedTuple):
    """outcome: what its element is called, "" for one that passed. kind: of the outcome."""

    classname: str
    name: str
    outcome: Literal["", "error", "failure", "skipped", "system-out"]
    kind: str
    text: str
    wall_s: float = 0.0


def document(name: str, created_utc: str, wall_s: float, cases: Sequence[Case]) -> str:
    """One suite, with the counts of its cases."""
    suite = xml.Element(
        "testsuite", name=name, tests=str(len(cases)), time=f"{wall_s:.3f}", timestamp=created_utc
    )
    for case in cases:
        element = xml.SubElement(suite, "testcase", classname=shown(case.classname), name=shown(case.name),
                                 time=f"{case.wall_s:.3f}")  # fmt: skip
        if case.outcome == "system-out":
            xml.SubElement(element, case.outcome).text = shown(case.text)
        elif case.outcome:
            inside = xml.SubElement(element, case.outcome, message=shown(case.text))
            if case.outcome != "skipped":
                inside.set("type", case.kind)
    for outcome, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.outcome == outcome for case in cases)))
    xml.indent(suite)
    return xml.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
