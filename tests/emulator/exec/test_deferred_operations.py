"""Asynchronous operations that are done late: correct kernels do not notice, kernels that forget a wait, a fence or a
commit give a wrong result, the same one every time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from asynchronous_kernels import CASES, Case
from asynchronous_tensors import TENSOR_CASES

if TYPE_CHECKING:
    from conftest import Fresh

SEEDS = range(1, 9)
LATE = {"DEFERRED": "1", "THREADS": "1"}
ALL_CASES = [*CASES, *TENSOR_CASES]
Results = dict[str, list[int]]


@pytest.fixture(scope="module")
def seen() -> dict[object, Results]:
    return {}


@pytest.fixture
def found(fresh: Fresh, seen: dict[object, Results]) -> Callable[..., Results]:
    """What all kernels give with these settings, found once."""

    def look(**settings: str) -> Results:
        key = tuple(sorted(settings.items()))
        if key not in seen:
            done = fresh(
                """
                import json
                from asynchronous_kernels import CASES, results
                from asynchronous_tensors import TENSOR_CASES
                found = {}
                for case in [*CASES, *TENSOR_CASES]:
                    for mistake in (None, *case.mistakes):
                        found[f"{case.name}: {mistake}"] = results(d, case.ptx(mistake), case)
                print(json.dumps(found))
                """,
                **settings,
            )
            seen[key] = json.loads(done.stdout)
        return seen[key]

    return look


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_correct_kernels_give_the_same_at_any_moment(found: Callable[..., Results], case: Case) -> None:
    name = f"{case.name}: None"
    wanted = found()[name]
    assert len(wanted) > 1
    assert any(wanted)
    for settings in (LATE, *(LATE | {"DEFERRED_SEED": str(seed)} for seed in SEEDS)):
        assert found(**settings)[name] == wanted, settings


@pytest.mark.parametrize(
    ("case", "mistake"),
    [
        pytest.param(case, mistake, id=f"{case.name}: {mistake}")
        for case in ALL_CASES
        for mistake in case.mistakes
    ],
)
def test_a_mistake_gives_a_wrong_result(found: Callable[..., Results], case: Case, mistake: object) -> None:
    name = f"{case.name}: {mistake}"
    wanted = found()[f"{case.name}: None"]
    late = found(**LATE)[name]
    assert late != wanted
    assert found(DEFERRED="1", THREADS="2")[name] == late
    seeds = [found(**LATE, DEFERRED_SEED=str(seed))[name] for seed in SEEDS]
    assert found(DEFERRED="1", THREADS="2", DEFERRED_SEED="3")[name] == seeds[2]
    assert sum(one != wanted for one in seeds) > len(SEEDS) / 2
