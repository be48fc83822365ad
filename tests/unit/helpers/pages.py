"""What a browser says of a page, for tests: its accessibility tree, and what axe-core finds."""

from __future__ import annotations

from importlib import resources
from typing import Any

from .chromium import Chromium

_AXE = """axe.run(document, { resultTypes: ["violations"] }).then(found => found.violations.flatMap(rule =>
    rule.nodes.map(node => [rule.id, node.target.join(" "), node.failureSummary].join(": "))))"""


def barriers(browser: Chromium) -> list[str]:
    """What keeps some people from using the page, as axe-core sees it."""
    source = resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    browser.run(f"{source}; null")
    found: list[str] = browser.run(_AXE)
    return found


def tree(browser: Chromium) -> list[tuple[str, str]]:
    """Role and name of what a screen reader meets, in its order, but for plain text and tables."""
    nodes: list[dict[str, Any]] = browser("Accessibility.getFullAXTree")["nodes"]
    wanted = {"main", "banner", "navigation", "article", "heading", "link", "button", "searchbox", "application",
              "status", "image", "region", "group", "table", "DisclosureTriangle"}  # fmt: skip
    by_id = {node["nodeId"]: node for node in nodes}  # the answer goes level by level
    found, ahead = [], [nodes[0]["nodeId"]]
    while ahead:
        node = by_id.get(ahead.pop())
        if node is None:
            continue
        ahead += reversed(node.get("childIds", ()))
        if not node.get("ignored") and node.get("role", {}).get("value") in wanted:
            found.append((node["role"]["value"], node.get("name", {}).get("value", "")))
    return found
