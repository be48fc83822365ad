"""Settings of Sphinx for the reference of the Python library: `make docs`."""

project = "replay"
author = "the authors of replay"
extensions = ["sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "replay: Python library"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"PathLike": "PathLike", "Side": "Side"}
default_role = "code"
nitpicky = False
