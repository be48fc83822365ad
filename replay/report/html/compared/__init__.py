"""The page of one comparison: the verdict and how sure it is, then why."""

from replay.report.html.compared.section import comparison_section

__all__ = ["comparison_section"]
