"""The rows of the table, by family. Importing this package fills `rows.ROWS`.

A row says only what the headers cannot: when a call is recorded, what it does to memory, and the roles of pointers
whose C type does not tell. Ids are append-only: captures contain them. Never reuse or renumber one.
"""

from . import arrays, copies, graphs, launches, legacy, memory, modules, process, resources, sharing, streams

__all__ = [
    "arrays",
    "copies",
    "graphs",
    "launches",
    "legacy",
    "memory",
    "modules",
    "process",
    "resources",
    "sharing",
    "streams",
]
