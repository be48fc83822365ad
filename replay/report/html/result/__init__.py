"""The page of one result: what it is evidence of, in the order in which people ask."""

from replay.report.html.result.section import result_section

__all__ = ["result_section"]
