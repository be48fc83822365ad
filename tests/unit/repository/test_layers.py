"""`.ci/layers.py` finds what breaks the order of the layers, and says where."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / ".ci" / "layers.py"
pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="needs a checkout: a source distribution has no .ci"
)

GOOD = {
    "low/count.h": "#pragma once\nextern int counted, last;\nvoid count(void);\n",
    "low/count.c": '#include "low/count.h"\n\nint counted, last;\nvoid count(void) { counted++; }\n',
    "high/run.h": "#pragma once\nvoid run(void);\n",
    "high/run.c": '#include "high/run.h"\n#include "low/count.h"\nvoid run(void) { count(); }\n',
}


@pytest.fixture
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    specification = importlib.util.spec_from_file_location("layers", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    layers = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "layers", layers)  # dataclasses look there
    specification.loader.exec_module(layers)
    monkeypatch.setattr(
        layers, "TREES", {"tree": layers.Tree(("low", "high"), data=("made",), apart=("other",))}
    )

    def check(**changed: str) -> list[str]:
        for name, text in (
            GOOD | {name.replace("__", "/").replace("_dot_", "."): changed[name] for name in changed}
        ).items():
            path = tmp_path / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return layers.check(tmp_path)

    return check


def test_one_way_is_allowed(problems, capsys):
    made = '#include "made/rows.inc"\n#include <stdio.h>\n#include "low/count.h"\n' + GOOD["low/count.c"]
    assert problems(low__count_dot_c=made, other__any_dot_c='#include "nowhere.h"\n') == []
    assert "2 layers, 4 files, largest circle 1" in capsys.readouterr().out


def test_includes_of_the_same_folder_and_headers_of_others_are_known(problems):
    good = {"low__room__more_dot_h": "#pragma once\nvoid count(void);\n"}
    inner = '#include "more.h"\n#include "low/count.h"\n'
    assert problems(**good, low__room__more_dot_c=inner, made__api_dot_h="void run(void);\n") == []
    turned = problems(**good, low__room__more_dot_c=inner + '#include "high/run.h"\n')
    assert turned == ["tree/low/room/more.c:3: low may not include high/run.h: high is above it"]


def test_includes_may_begin_with_the_name_of_the_tree(problems):
    assert problems(high__run_dot_c=GOOD["high/run.c"].replace('"low', '"tree/low')) == []
    turned = GOOD["low/count.c"] + '#include "tree/high/run.h"\n'
    assert problems(low__count_dot_c=turned) == [
        "tree/low/count.c:5: low may not include high/run.h: high is above it"
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("low__count_dot_c", '#include "low/count.h"\n#include "high/run.h"\nint counted, last;\nvoid count(void) {}\n',
         "tree/low/count.c:2: low may not include high/run.h: high is above it"),
        ("low__count_dot_h", '#pragma once\n#include "../high/run.h"\nvoid count(void);\n',
         "tree/low/count.h:2: ../high/run.h is in no layer: low, high"),
        ("third__more_dot_c", "int more;\n", "tree/third/more.c:1: third is no layer: low, high"),
        ("low__again_dot_c", "void run(void);\nvoid call(void) { run(); }\n",
         "tree/low/again.c:1: run is not defined here: include the header that declares it"),
        ("low__again_dot_c", "extern int counted;\n",
         "tree/low/again.c:1: counted is not defined here: include the header that declares it"),
        ("low__again_dot_h", "#pragma once\n// A call upwards, hidden.\nvoid run(void);\n",
         "tree/low/again.h:3: run is defined in high/run.c: declare it in a header there"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_named(problems, name: str, text: str, problem: str):
    assert problem in problems(**{name: text})


def test_circles_are_bounded(problems):
    files = {}
    for n in range(5):
        files[f"low__f{n}_dot_h"] = f"#pragma once\nvoid f{n}(void);\n"
        files[f"low__f{n}_dot_c"] = (
            f'#include "low/f{n}.h"\n#include "low/f{(n + 1) % 5}.h"\nvoid f{n}(void) {{ f{(n + 1) % 5}(); }}\n'
        )
    circle = ", ".join(f"low/f{n}" for n in range(5))
    assert problems(**files) == [f"tree: a circle of 5 files, above 4: {circle}"]
