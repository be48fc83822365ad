"""Texts that frameworks write into ranges, read; and which texts an option looks for."""

from __future__ import annotations

import pytest

from replay.inspection.frameworks import chosen_by, framework_text
from replay.inspection.origins import origin_text, shorter
from replay.snapshot.schema import Frame

KEY = f"f{'a7' * 25}x"


@pytest.mark.parametrize(
    ("domain", "name", "told"),
    [
        ("TSL", "Thunk:#hlo_op=fusion.3,unique_hlo_op_id=7#", "XLA operation fusion.3"),
        ("TSL", "Thunk:#name=mul,hlo_op=loop_fusion#", "XLA operation loop_fusion (mul)"),  # of 2025
        (
            "TSL",
            "Thunk:#name=a/dot[dims=(1,)],hlo_op=dot.1,unique_hlo_op_id=2#",
            "XLA operation dot.1 (a/dot[dims=(1,)])",
        ),
        ("TSL", "XlaModule:#hlo_module=jit_f#", "XLA module jit_f"),
        ("TSL", "XlaModule:#prefix=jit(f)/a,hlo_module=jit_f,program_id=1#", "XLA module jit_f (jit(f)/a)"),
        ("TSL", "XlaPass:#name=fusion,module=jit_f#", ""),
        ("TSL", "Thunk:#name=cut off before it says its operat", ""),
        ("", "Thunk:#hlo_op=fusion.3#", ""),
        ("", f"## Call CompiledFxGraph {KEY} ##", f"Inductor graph {KEY}"),
        ("", f"## Call CompiledFxGraph {KEY} ##, op_id = 3", f"Inductor graph {KEY}"),
        ("", "Torch-Compiled Region: 0/0", "compiled region 0/0"),
        ("", "Torch-Compiled Region: 12/3, op_id = 15", "compiled region 12/3"),
        ("", "aten::addmm, seq = 12, op_id = 3, sizes = [[2], [2, 2]]", "operator aten::addmm"),
        ("", "aten::addmm", ""),  # it may be the user's own
        (None, "Torch-Compiled Region: 0/0", ""),  # a function of that name
    ],
)
def test_text_of_a_framework(domain, name, told):
    assert framework_text(Frame("", -1, name, domain)) == told


def test_options_look_for_whole_names():
    texts = [text.split("\t") for text in chosen_by("--op", "add")]
    assert ["TSL", "#hlo_op=add,"] in texts
    assert ["TSL", ",hlo_op=add#"] in texts
    assert ["", "^add, op_id = "] in texts
    assert {domain for domain, _ in (text.split("\t") for text in chosen_by("--module", "jit_f"))} == {"TSL"}
    assert not [*chosen_by("--nvtx", "add")]


def test_shorter_text_has_fewer_frames_and_ranges():
    frames = [Frame("m.py", 7, "step"), Frame("m.py", 9, "<module>")]
    around = [
        Frame("", -1, "Thunk:#name=mul,hlo_op=loop_fusion#", "TSL"),
        Frame("", -1, "XlaModule:#hlo_module=jit_f#", "TSL"),
        Frame("", -1, "epoch", ""),
    ]
    text = origin_text([*frames, *around], 3)
    assert text == (
        "m.py:7 (step), called by m.py:9 (<module>), in XLA operation loop_fusion (mul), in XLA module jit_f, "
        "in NVTX range epoch"
    )
    assert shorter(text, 3) == text
    assert shorter(text, 1) == "m.py:7 (step), in XLA operation loop_fusion (mul)"
    assert shorter(origin_text(around, 3), 2) == "XLA operation loop_fusion (mul), in XLA module jit_f"
