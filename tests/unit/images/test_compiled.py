"""What nvcc makes on this machine, read."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from replay import images
from replay.images import cubin

from ..helpers.image_factory import GOLDEN, LAYOUTS, STRUCTS, layouts


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc on PATH: install a CUDA toolkit")
    folder = tmp_path_factory.mktemp("nvcc")

    def run(*options: str) -> bytes:
        target = folder / "out"
        command = ["nvcc", *options, "-o", str(target), str(GOLDEN / "kernels.cu")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        # Which architectures there are depends on the toolkit; anything else that nvcc objects to is a failure.
        if done.returncode and re.search(
            "unsupported gpu architecture|is not defined for option", done.stderr, re.I
        ):
            pytest.skip(f"needs another nvcc: this one lacks {' '.join(options)}")
        assert done.returncode == 0, done.stderr
        return target.read_bytes()

    return run


class TestWithNvcc:
    @pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
    def test_cubin(self, compiled: Callable[..., bytes], architecture: str) -> None:
        data = compiled("-cubin", f"-arch={architecture}")
        module = images.read_cubin(data)
        assert module.target == architecture.rstrip("a")
        assert layouts(module) == LAYOUTS
        assert module.kernels[STRUCTS].max_threads == (256, 1, 1)
        assert {name: item.size for name, item in module.variables.items()} == {
            "table": 148,
            "counter": 4,
            "flag": 4,
            "coefficients": 18,
        }
        offset = module.variables["table"].offset
        assert offset is not None
        assert struct.unpack_from("<4f", data, offset) == (1, 2, 3, 0)
        assert images.image_size(data + b"more") == len(data)

    @pytest.mark.parametrize(("architecture", "reserved"), [("sm_80", 0), ("sm_90", 1024), ("sm_120", 1024)])
    def test_shared_memory_that_the_system_reserves_is_not_the_kernels(
        self, tmp_path: Path, architecture: str, reserved: int
    ) -> None:
        ptxas = shutil.which("ptxas")
        if ptxas is None:
            pytest.skip("needs ptxas on PATH: install a CUDA toolkit")
        source, target = tmp_path / "k.ptx", tmp_path / "k.cubin"
        body = "mov.u32 %r, b; ld.shared.u32 %r, [%r]; ld.param.u64 %a, [p]; st.global.u32 [%a], %r; ret; }"
        source.write_text(
            ".version 8.7\n.target sm_80\n.address_size 64\n.extern .shared .align 4 .b8 e[];\n"
            ".visible .entry own(.param .u64 p) { .reg .b32 %r; .reg .b64 %a; .shared .b8 b[400]; "
            + body
            + ".visible .entry none(.param .u64 p) { .reg .b32 %r; .reg .b64 %a; "
            + body.replace(", b;", ", e;")
        )
        done = subprocess.run([ptxas, f"-arch={architecture}", str(source), "-o", str(target)], check=False)
        if done.returncode:
            pytest.skip(f"needs another ptxas: this one lacks {architecture}")
        kernels = images.read_cubin(target.read_bytes()).kernels
        found = {name: (item.shared_bytes, item.reserved_shared_bytes) for name, item in kernels.items()}
        assert found == {"own": (400, reserved), "none": (0, reserved)}

    def test_cubin_agrees_with_pyelftools(self, compiled: Callable[..., bytes]) -> None:
        import io

        elffile = pytest.importorskip(
            "elftools.elf.elffile", reason="needs pyelftools: pip install pyelftools"
        )
        data = compiled("-cubin", "-arch=sm_80")
        oracle = elffile.ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
        kernels = {
            symbol.name
            for symbol in oracle.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol.entry["st_other"]
        }
        assert set(images.read_cubin(data).kernels) <= kernels
        sections = elffile.ELFFile(io.BytesIO(data)).iter_sections()
        found = {section.name: section["sh_size"] for section in sections}
        assert {item.name: item.size for item in cubin._sections(data)} == found

    def test_fat_binary(self, compiled: Callable[..., bytes]) -> None:
        data = compiled(
            "-fatbin",
            *("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=compute_90"),
            *("-gencode", "arch=compute_90a,code=sm_90a"),
        )
        assert images.image_size(data + b"more") == len(data)
        entries = images.read_container(data)
        assert sorted(entry.target for entry in entries) == ["compute_90", "sm_80", "sm_90a"]
        for module in images.read_image(data):
            assert layouts(module) == LAYOUTS
        kernel = images.find_kernel(data, STRUCTS, 90)
        assert kernel is not None
        assert kernel.registers
        assert [item.alignment for item in kernel.parameters] == [1, 8, 16, 2]

    def test_ptx(self, compiled: Callable[..., bytes]) -> None:
        module = images.read_ptx(compiled("-ptx", "-arch=compute_90"))
        assert layouts(module) == LAYOUTS
