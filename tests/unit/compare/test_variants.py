"""Variants: their text, which kernel they mean, what is compared before anything runs, and the calls they change."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path

import pytest

from replay.drivers import Driver
from replay.engine.variants import Changes, Replacement, Shape, apply
from replay.errors import EngineError, ImageError, UsageError
from replay.images.model import GlobalVariable, KernelInfo, Parameter
from replay.inspection.launches import LaunchedKernel, launches
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Kernel
from replay.variants import device
from replay.variants.assemblers.ptxas import assemble, spills
from replay.variants.assemblers.tools import PTXAS, find
from replay.variants.compilers.tools import BuildError
from replay.variants.images import describe
from replay.variants.interface import InterfaceMismatch, Launched, compare_interfaces, compare_variables
from replay.variants.kernels import find_kernel
from replay.variants.model import Variant, make_variant, parse, parse_swap
from replay.variants.plan import plan_variant

from ..helpers.snapshot_factory import FUNCTION, MODULE, SAMPLES, vector_add


def problems(facts):
    return {fact.what: fact.problem for fact in facts if fact.problem}


# -- the text ---------------------------------------------------------------------------------------------------


def test_text_of_a_variant_is_read_back_as_an_equal_variant(tmp_path):
    file = tmp_path / "a kernel=2.ptx"
    file.write_bytes(b"")
    variant = make_variant(
        driver="/a b", device=2, swap=[f"op<(T)1>={file}", f"k={file}@other<2>"], ptxas="12.9",
        jit=["opt-level=2,lineinfo", "cache-mode=ca"], grid=["saxpy=4,2", "8"], block=["1,2,3"],
        shared=["op<(T)1>=4096"],
    )  # fmt: skip
    assert parse(str(variant)) == variant
    assert variant.swaps[0].kernel == "op<(T)1>"
    assert variant.swaps[1].name == "other<2>"
    assert "jit=opt-level=2,lineinfo,cache-mode=ca" in str(variant)
    assert str(Variant()) == ""
    assert parse("") == Variant()
    assert Variant().changes_nothing
    assert not variant.changes_nothing


@pytest.mark.parametrize(
    "text", ["swap", "colour=red", "ptxas=12 ptxas=13", "jit=speed=11", "jit=opt-level=5", "jit=lineinfo=maybe",
             "grid=0", "grid=1,2,3,4", "block=-1", "shared=1,2", "grid=1 grid=2", "device=x", "'", "swap=/nowhere.ptx",
             "12.6", "ptxas", "ptxas=", "nowhere.ptx", "k=nowhere.ptx"],
)  # fmt: skip
def test_text_that_makes_no_sense_is_a_usage_error(text):
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize(
    ("written", "stable"),
    [
        ("ptxas:12.6", "ptxas=12.6"),
        ("--tileiras 13.1 --ptxas 13.0", "ptxas=13.0 tileiras=13.1"),
        ("ptxas 12.6", "ptxas=12.6"),
        ("--ptxas 12.6", "ptxas=12.6"),
        ("--ptxas=12.6 --block 128", "ptxas=12.6 block=128,1,1"),
        (
            "ptxas=12.6,block=16,8;jit=opt-level=2,lineinfo",
            "ptxas=12.6 jit=opt-level=2,lineinfo block=16,8,1",
        ),
        ("ptxas=12.6 lower-ptx=yes", "ptxas=12.6"),
        ("new.ptx", "swap=new.ptx"),
        ("gemm=new.ptx", "swap=gemm=new.ptx"),
        ("module=new.ptx", "swap=new.ptx"),
        ("driver:/a:b", "driver=/a:b"),
        ("captured", ""),
    ],
)
def test_what_a_user_may_write_is_read(tmp_path, monkeypatch, written, stable):
    monkeypatch.chdir(tmp_path)
    Path("new.ptx").write_text("")
    assert str(parse(written)) == stable


def test_an_error_lists_the_spellings():
    with pytest.raises(UsageError) as error:
        parse("12.6")
    assert "ptxas=13.0, swap=[KERNEL=]FILE[@NAME], driver=DIR" in error.value.next
    assert "for this one, ptxas=12.6" in error.value.next


def test_kernel_and_file_of_a_swap_may_both_hold_equals_signs():
    there = {"/x/a=b.ptx", "c.ptx"}
    assert parse_swap("k=/x/a=b.ptx", there.__contains__).kernel == "k"
    assert parse_swap("f(int)==1=c.ptx", there.__contains__).kernel == "f(int)==1"
    assert parse_swap("/x/a=b.ptx", there.__contains__).kernel == ""


# -- which kernel -----------------------------------------------------------------------------------------------


def kernel(name, demangled="", image="1234"):
    return Kernel(name, demangled or name, image, [], 1, [1, 1, 1], [1, 1, 1], 0)


def test_a_name_goes_before_an_expression_and_doubt_is_an_error():
    add, add2, gemm = kernel("add"), kernel("add2"), kernel("_Z4gemmPf", "void ns::gemm<float>(float*)")
    assert find_kernel([add, add2, gemm], "add", "--swap") is add
    assert find_kernel([add, add2, gemm], "gemm", "--swap") is gemm
    assert find_kernel([add, add2, gemm], "g.mm<", "--swap") is gemm
    with pytest.raises(UsageError, match="2 kernels of the window match"):
        find_kernel([add, add2, gemm], "a.d", "--swap")
    with pytest.raises(UsageError, match="no kernel"):
        find_kernel([add], "sub", "--swap")
    with pytest.raises(UsageError, match="no regular expression"):
        find_kernel([add], "(", "--swap")
    twins = [kernel("add", image="aaaa1"), kernel("add", image="bbbb2")]
    assert find_kernel(twins, "add@bbbb", "--swap") is twins[1]
    with pytest.raises(UsageError, match="add@aaaa1, add@bbbb2"):
        find_kernel(twins, "add", "--swap")


# -- the interface ----------------------------------------------------------------------------------------------

INFO = KernelInfo("k", (Parameter(0, 8), Parameter(8, 4)), 12, registers=10, shared_bytes=0)
LAUNCH = Launched((8, 1, 1), (128, 1, 1), 0)


def changed(**words):
    return KernelInfo(**{**vars(INFO), **words})


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"parameters": (Parameter(0, 8),)}, "parameters"),
        ({"parameters": (Parameter(0, 8), Parameter(8, 8))}, "parameter 1"),
        ({"parameters": (Parameter(0, 8), Parameter(12, 4))}, "parameter 1"),
        ({"max_threads": (64, 1, 1)}, "threads a block, most"),
        ({"required_threads": (256, 1, 1)}, "threads a block, required"),
        ({"required_cluster": (3, 1, 1)}, "cluster, required"),
        ({"shared_bytes": 300 << 10}, "dynamic shared memory of its launches"),
    ],
)
def test_what_does_not_fit_is_a_problem(words, what):
    assert what in problems(compare_interfaces(INFO, changed(**words), [LAUNCH], 90))


@pytest.mark.parametrize(
    "words", [{}, {"registers": 255}, {"shared_bytes": 4096}, {"max_threads": (128, 1, 1)},
              {"required_threads": (128, 1, 1)}, {"required_cluster": (2, 1, 1)}],
)  # fmt: skip
def test_what_fits_is_no_problem(words):
    assert problems(compare_interfaces(INFO, changed(**words), [LAUNCH], 90)) == {}


def test_more_parameters_than_are_shown_are_all_compared():
    many = tuple(Parameter(8 * i, 8) for i in range(20))
    other = (*many[:19], Parameter(8 * 19, 4))
    assert problems(compare_interfaces(changed(parameters=many), changed(parameters=other), [LAUNCH], 90))


def test_a_variable_that_is_lacking_or_smaller_is_a_problem():
    there = {"a": GlobalVariable("a", 16, "global", False), "b": GlobalVariable("b", 4, "global", False)}
    assert problems(compare_variables([("a", 16)], there)) == {}
    assert set(problems(compare_variables([("a", 16), ("b", 8), ("c", 1)], there))) == {
        "variable b",
        "variable c",
    }


# -- the calls --------------------------------------------------------------------------------------------------


def test_several_images_beside_a_captured_one_give_a_kernel_each():
    factory = vector_add(64)
    digest = factory.images[0].digest
    swaps = tuple(
        Replacement(digest, new, b"image", {name: name}, beside=True)
        for new, name in (("one", "other"), ("two", "vector_add"))
    )
    calls = apply(factory.calls, Changes(swaps))
    loads = [call for call in calls if call.function.startswith("cuModuleLoad")]
    assert [call.inputs["image"] for call in loads] == [digest, "one", "two"]
    handles = [int.from_bytes(call.outputs["module"], "little") for call in loads]
    assert len(set(handles)) == 3
    assert next(call for call in calls if call.function == "cuModuleGetFunction").arguments[1] == handles[2]


def test_a_swapped_image_is_loaded_in_place_of_the_captured_one():
    factory = vector_add(64)
    digest = factory.images[0].digest
    swap = Replacement(digest, "new", b"image", {"vector_add": "mine"})
    calls = apply(factory.calls, Changes((swap,), ((7, 2),)))
    load = next(call for call in calls if call.function.startswith("cuModuleLoad"))
    assert (load.function, load.inputs["image"]) == ("cuModuleLoadDataEx", "new")
    assert load.inputs["options"] == struct.pack("<I", 7)
    assert load.inputs["optionValues"] == struct.pack("<Q", 2)
    get = next(call for call in calls if call.function == "cuModuleGetFunction")
    assert (get.inputs["name"], get.arguments[1]) == (b"mine", MODULE)


def test_an_image_beside_the_captured_one_gives_its_kernels_alone():
    factory = vector_add(64)
    digest = factory.images[0].digest
    swap = Replacement(digest, "new", b"image", {"vector_add": "vector_add"}, beside=True)
    calls = apply(factory.calls, Changes((swap,)))
    loads = [call for call in calls if call.function.startswith("cuModuleLoad")]
    assert [call.inputs["image"] for call in loads] == [digest, "new"]
    second = int.from_bytes(loads[1].outputs["module"], "little")
    assert second != MODULE
    assert next(call for call in calls if call.function == "cuModuleGetFunction").arguments[1] == second


def test_nothing_changes_without_a_variant():
    factory = vector_add(64)
    assert apply(factory.calls, Changes()) == factory.calls


def test_geometry_changes_every_form_of_launch():
    factory = vector_add(64)
    key = LaunchedKernel("vector_add", factory.images[0].digest)
    config = struct.pack("<7I4xQQI4x", 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)
    factory.call("cuLaunchKernelEx", [0x7F30, FUNCTION, 0x7F38, 0], inputs={"config.0": config})
    shapes = (
        Shape("grid", key, (2, 3, 4)),
        Shape("block", key, (64, 2, 1)),
        Shape("shared", key, (512, 0, 0)),
    )
    found = list(launches(apply(factory.calls, Changes(shapes=shapes)), factory.kernels))
    assert [(item.grid, item.block, item.shared_bytes) for item in found] == [
        ((2, 3, 4), (64, 2, 1), 512)
    ] * 2
    other = (Shape("grid", LaunchedKernel("other", key.image), (2, 3, 4)),)
    assert apply(factory.calls, Changes(shapes=other)) == factory.calls


# -- the whole --------------------------------------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "architecture", lambda driver, ordinal: 90)
    snapshot = vector_add(64).write(tmp_path / "x.rsnap")
    driver = Driver("emulator", tmp_path / "libcuda.so.1", None, emulated=True)

    def run(ptx, **words):
        file = tmp_path / "new.ptx"
        file.write_bytes(ptx)
        with SnapshotReader(snapshot) as reader:
            return plan_variant(make_variant(swap=[str(file)], **words), reader, driver, 0)

    return run


PTX = (SAMPLES / "vector_add" / "vector_add.ptx").read_bytes()


def test_the_same_image_is_said_to_be_the_same(plan):
    (image,) = plan(PTX).facts.images
    assert image.same
    assert image.replaces.startswith(image.digest)
    assert not image.beside
    (image,) = plan(PTX.replace(b"add.f32", b"sub.f32")).facts.images
    assert not image.same


def test_another_parameter_is_refused_with_both_sides(plan):
    with pytest.raises(InterfaceMismatch) as error:
        plan(PTX.replace(b".param .u32 vector_add_param_3", b".param .u64 vector_add_param_3"))
    assert "4 bytes at 24" in error.value.details
    assert "8 bytes at 24" in error.value.details
    assert error.value.exit_code == 3


def test_the_only_kernel_of_a_file_may_have_another_name(plan):
    plan_ = plan(PTX.replace(b"vector_add", b"added"))
    assert plan_.replacements[0].names == {"vector_add": "added"}


def test_a_block_that_is_too_large_for_the_variant_is_refused(plan):
    limited = PTX.replace(b"\n{", b"\n.maxntid 128, 1, 1\n{", 1)
    with pytest.raises(InterfaceMismatch, match="256 threads"):
        plan(limited)
    assert plan(limited, block=["128"]).shapes


def test_a_file_that_is_no_image_is_refused(plan):
    with pytest.raises(EngineError.__mro__[1], match="no cubin, PTX, Tile IR or fat binary"):
        plan(b"hello")


def test_static_shared_memory_of_ptx_is_counted_against_the_device(plan):
    large = PTX.replace(b"\n{", b"\n{ .shared .align 4 .b8 a[200000]; .shared .f32 b; ", 1)
    with pytest.raises(InterfaceMismatch, match="240,004 bytes a block") as error:
        plan(large, shared=["40000"])
    assert "200,004 bytes" in error.value.details
    assert "choose" not in error.value.next


def test_a_program_is_no_image(plan):
    with pytest.raises(ImageError, match=r"new\.ptx: .*not for CUDA.*nvcc -cubin"):
        plan(Path(sys.executable).read_bytes())


def test_the_images_reach_the_worker_through_open_files(plan):
    import os

    plan_ = plan(PTX.replace(b"add.f32", b"sub.f32"))
    with plan_.request() as (request, descriptors):
        assert os.pread(descriptors[0], request["replacements"][0]["bytes"], 0) == plan_.replacements[0].image
    with pytest.raises(OSError):
        os.fstat(descriptors[0])


# -- ptxas ------------------------------------------------------------------------------------------------------


def test_the_wheel_of_a_version_is_named_as_on_the_index():
    assert PTXAS.requirement("13.0") == "nvidia-cuda-nvcc==13.0.*"
    assert PTXAS.requirement("12.9.86") == "nvidia-cuda-nvcc-cu12==12.9.86"


def test_spills_are_those_of_the_kernel_and_not_of_its_functions():
    log = """ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for helper
    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for k
    16 bytes stack frame, 32 bytes spill stores, 64 bytes spill loads
ptxas info    : Used 12 registers"""
    assert spills(log) == {"k": (32, 64)}


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas on PATH: install a CUDA toolkit")
def test_machine_code_is_compared_kernel_by_kernel(tmp_path):
    """Two builds may differ in the file and have the same instructions."""
    tool = find(PTXAS, shutil.which("ptxas"))

    def build(text, name):
        return assemble(tool, text, name, 90)

    captured = build(PTX, "captured")
    again = build(b"// a comment\n" + PTX, "again")
    other = build(PTX.replace(b"add.f32", b"sub.f32"), "other")
    assert describe(again, "vector_add", 90, captured, "vector_add").same_code is True
    assert describe(other, "vector_add", 90, captured, "vector_add").same_code is False
    assert describe(other, "vector_add", 90, None, "vector_add").same_code is None


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas on PATH: install a CUDA toolkit")
def test_ptx_that_is_too_new_is_lowered_and_that_is_told():
    tool = find(PTXAS, shutil.which("ptxas"))
    text = PTX.replace(b".version 7.0", b".version 99.0")
    lowered = assemble(tool, text, "new.ptx", 90)
    assert lowered.lowered.startswith(f"PTX 99.0 was given to ptxas {tool.version} as ")
    assert describe(lowered, "vector_add", 90, None, "vector_add").lowered == lowered.lowered
    assert assemble(tool, PTX, "old.ptx", 90).lowered == ""
    with pytest.raises(BuildError, match="PTX 99.0 was given to"):
        assemble(tool, text.replace(b"add.f32", b"never.f32"), "new.ptx", 90)
    assert lowered.code("vector_add", 90) == assemble(tool, PTX, "old.ptx", 90).code("vector_add", 90)
