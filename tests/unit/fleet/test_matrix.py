"""The matrix: what means nothing in it is named with its line, and a corpus may hold anything."""

from __future__ import annotations

import dataclasses
import datetime
import os

import pytest

from replay.check.config import Owner
from replay.errors import UsageError
from replay.fleet.matrix import owner_of, read_matrix
from replay.fleet.planning import make_plan
from replay.snapshot.schema import Frame

from ..helpers.snapshot_factory import vector_add

NOW = datetime.datetime(2026, 11, 27, 20, tzinfo=datetime.timezone.utc)
GOOD = """[[kind]]
name = "cpu"
driver = "emulator"
[[compare]]
name = "compiler"
a = "ptxas=12.6"
b = ["ptxas=12.9", "ptxas=13.0"]
"""


def matrix_of(folder, text):
    path = folder / "night.toml"
    path.write_text(text)
    return read_matrix(path)


def test_each_of_several_sides_is_a_comparison(tmp_path):
    matrix = matrix_of(tmp_path, GOOD)
    assert [(item.name, item.a, item.b) for item in matrix.comparisons] == [
        ("compiler-1", "ptxas=12.6", "ptxas=12.9"),
        ("compiler-2", "ptxas=12.6", "ptxas=13.0"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", None, "names no kind"),
        ('[[kind]]\nname = "x"', None, "compares nothing"),
        (GOOD + "[nonsense]", 8, "nonsense"),
        (GOOD + 'kinds = ["h100"]', 8, "no kind 'h100'"),
        (GOOD + 'kernels = "("', 8, "no regular expression"),
        (GOOD + '[[compare]]\nname = "compiler-1"\nb = "env=X=1"', None, "there twice"),
        (GOOD.replace('b = ["ptxas=12.9", "ptxas=13.0"]', 'b = "ptxas=12.6"'), 7, "with itself"),
        (GOOD.replace("ptxas=12.6", "nosuch=1"), 6, "nosuch"),
        (GOOD.replace('name = "cpu"', 'name = "a b"'), 2, "expected letters"),
        (GOOD.replace('driver = "emulator"', "workers = 0"), 3, "from 1 to"),
        (GOOD + "[limits]\nquick = 3", 9, "true or false"),
        (GOOD + "[limits]\nminimum_effect = 3", 9, "a fraction"),
    ],
)
def test_what_means_nothing_is_named_with_its_line(tmp_path, text, line, says):
    with pytest.raises(UsageError, match=says) as raised:
        matrix_of(tmp_path, text)
    if line is not None:
        assert raised.value.where.endswith(f"night.toml:{line}")


def corpus_of(folder):
    corpus = folder / "corpus"
    for number, name in enumerate(("a/x.rsnap", "b/x.rsnap"), 1):
        path = corpus / name
        path.parent.mkdir(parents=True, exist_ok=True)
        vector_add(number * 1000).write(path)
    (corpus / "c.rsnap").write_bytes((corpus / "a/x.rsnap").read_bytes())
    (corpus / "stranger.rsnap").write_bytes(b"PK\x03\x04")
    (corpus / "cut.rsnap").write_bytes((corpus / "a/x.rsnap").read_bytes()[:200])
    (corpus / "old.txt").write_text("nothing of ours")
    (corpus / "result.rsnap").write_bytes(b"\x28\xb5\x2f\xfd\x04\x00")  # a result that was named so
    (corpus / "gone.rsnap").symlink_to(corpus / "nothing")
    os.mkfifo(corpus / "pipe.rsnap")
    return corpus


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path):
    plan = make_plan(corpus_of(tmp_path), matrix_of(tmp_path, GOOD), True, NOW)
    problems = {problem.where: problem.why for problem in plan.problems}
    assert set(problems) == {
        "c.rsnap", "stranger.rsnap", "cut.rsnap", "result.rsnap", "gone.rsnap", "pipe.rsnap",
    }  # fmt: skip
    assert "same contents as a/x.rsnap" in problems["c.rsnap"]
    assert len({unit.id for unit in plan.units}) == len(plan.units)
    assert {unit.snapshot for unit in plan.units} == {"a/x.rsnap", "b/x.rsnap"}


def test_the_plan_says_who_owns_a_unit_by_where_it_comes_from(tmp_path):
    snapshot = vector_add(1000)
    kernel = snapshot.kernels[0]
    snapshot.kernels[0] = dataclasses.replace(kernel, origin=[Frame("models/norms.py", 3, "forward")])
    (tmp_path / "corpus").mkdir()
    snapshot.write(tmp_path / "corpus" / "x.rsnap")
    vector_add(2000).write(tmp_path / "corpus" / "y.rsnap")
    owners = '[[owner]]\nkernel = "gemm"\n[[owner]]\nsource = "models/norms"\nteam = "norms"\n'
    matrix = matrix_of(tmp_path, GOOD + owners)
    plan = make_plan(tmp_path / "corpus", matrix, True, NOW)
    assert {unit.snapshot: unit.owner for unit in plan.units} == {"x.rsnap": 1, "y.rsnap": -1}
    teams = [(owner_of(matrix.config, unit) or Owner(None, "nobody")).team for unit in plan.units]
    assert teams == ["norms", "norms", "nobody", "nobody"]


def test_ids_do_not_depend_on_names(tmp_path):
    plan = make_plan(corpus_of(tmp_path), matrix_of(tmp_path, GOOD), True, NOW)
    (tmp_path / "corpus").rename(tmp_path / "moved")
    (tmp_path / "moved" / "a").rename(tmp_path / "moved" / "d")
    moved = make_plan(
        tmp_path / "moved", matrix_of(tmp_path, GOOD.replace('"compiler"', '"other"')), True, NOW
    )
    assert {unit.id for unit in plan.units} == {unit.id for unit in moved.units}


def test_a_matrix_that_asks_for_nothing_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing to do.*no window has a kernel 'nosuch'"):
        make_plan(corpus_of(tmp_path), matrix_of(tmp_path, GOOD + 'kernels = "nosuch"'), True, NOW)
