"""What Inductor's generated code says of the line that launched: the graph, the kernel and the operators it is from.

`torch.compile` calls each kernel from a Python file in its cache. Its head and the comments above each call are those
of `torch._inductor.codegen.wrapper` and of `get_kernel_metadata` in `torch._inductor.utils`.
"""

from __future__ import annotations

import os.path
import re
from functools import lru_cache

from replay.errors import ReplayError
from replay.reading import read_file

_FILE = re.compile(r"/c[a-z2-7]{51}\.py$")  # named by the digest of its code
_MOST_BYTES = 32 << 20
_GRAPH = re.compile(r"# AOT ID: \['([^']+)'\]")
_OPERATORS = re.compile(r"# .*Source Nodes: \[.*\], Original ATen: \[(.*)\]")
_HANDLE = re.compile(r"# \[Provenance debug handles\] (\S+:[0-9]+)")
_BETWEEN = re.compile(r"#|\w*stream[0-9]+ = get_raw_stream\(")  # what may be between a comment and its call
_MOST_LINES = 8  # of these
_MOST_TEXT = 1000


def written_by_inductor(file: str, line: int) -> str:
    """`Inductor graph 0_inference, triton_poi_fused_add_0:3, aten.mul, aten.add`, as far as the file says so of this
    line; "" of any other file, and where it is gone."""
    if not _FILE.search(file):
        return ""
    lines = _lines(os.path.expanduser(file))
    graph = _GRAPH.match(lines[0]) if lines else None
    if graph is None:
        return ""
    found = [f"Inductor graph {graph[1]}"]
    for above in reversed(lines[max(line - 1 - _MOST_LINES, 0) : max(line - 1, 0)]):
        if not _BETWEEN.match(above.strip()):
            break
        if handle := _HANDLE.match(above.strip()):
            found.insert(1, handle[1])
        elif operators := _OPERATORS.match(above.strip()):
            found += [operators[1]] if operators[1] else []
            break
    return ", ".join(found)[:_MOST_TEXT]


@lru_cache(maxsize=16)
def _lines(file: str) -> list[str]:
    """Empty where it cannot be read."""
    try:
        return read_file(file, _MOST_BYTES).decode("utf-8", "replace").split("\n")
    except ReplayError:
        return []
