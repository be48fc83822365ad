"""What the code of Inductor says of a line: text as PyTorch 2.14 writes it for a GPU."""

from __future__ import annotations

import pytest

from replay.pack.inductor import written_by_inductor

NAME = f"c{'abcdefg234' * 5}x.py"
CODE = """
# AOT ID: ['3_backward']
import torch
def call(args):
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((2, 8), (8, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mul, y], Original ATen: [aten.mul, aten.add]
        # [Provenance debug handles] triton_poi_fused_add_mul_0:5
        raw_stream0 = get_raw_stream(0)
        triton_poi_fused_add_mul_0.run(arg0_1, buf0, 16, stream=raw_stream0)
        triton_poi_fused_1.run(arg0_1, buf0, 16, stream=raw_stream0)
        # Unsorted Source Nodes: [], Original ATen: []
        stream0 = get_raw_stream(0)
        triton_poi_fused_2.run(arg0_1, buf0, 16, stream=stream0)
        # Topologically Sorted Source Nodes: [mm], Original ATen: [aten.mm]
        extern_kernels.mm(buf0, buf0, out=buf1)
    return (buf1, )
""".lstrip()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("triton_poi_fused_add_mul_0.run", ", triton_poi_fused_add_mul_0:5, aten.mul, aten.add"),
        ("triton_poi_fused_1.run", ""),  # no comment of its own: that above is of another kernel
        ("triton_poi_fused_2.run", ""),
        ("extern_kernels.mm", ", aten.mm"),
        ("import torch", ""),
    ],
)
def test_line_of_generated_code(tmp_path, line, told):
    (tmp_path / NAME).write_text(CODE)
    number = 1 + [line in text for text in CODE.splitlines()].index(True)
    assert written_by_inductor(str(tmp_path / NAME), number) == f"Inductor graph 3_backward{told}"


@pytest.mark.parametrize("line", [-1, 0, 1, 10_000])
def test_line_that_is_not_there(tmp_path, line):
    (tmp_path / NAME).write_text(CODE)
    assert written_by_inductor(str(tmp_path / NAME), line) == "Inductor graph 3_backward"


def test_other_files_say_nothing(tmp_path):
    (tmp_path / "model.py").write_text(CODE)
    assert written_by_inductor(str(tmp_path / "model.py"), 9) == ""
    assert written_by_inductor(str(tmp_path / NAME), 9) == ""  # gone
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / NAME).write_bytes(b"\xff\x00" * 100)
    assert written_by_inductor(str(tmp_path / "other" / NAME), 9) == ""
