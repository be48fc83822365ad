"""Random graphs, built by hand and by capture, against an interpreter in Python; before and after an update."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("deferred", ["0", "1"])
@pytest.mark.parametrize("first", [0, 20])
def test_random_graphs_give_what_their_program_says(fresh, deferred: str, first: int):
    done = fresh(
        f"""
        import random_graphs
        random_graphs.check(d, range({first}, {first} + 20))
        print("ok")
        """,
        DEFERRED=deferred,
        status=None,
    )
    assert done.stdout.strip() == "ok", done.stdout + done.stderr
