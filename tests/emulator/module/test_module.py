"""Modules, libraries and kernels: lookup, variables, contexts, ends."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from driver_api import Driver

MANAGED = api.HEADER + (
    ".visible .global .attribute(.managed) .align 4 .u32 shared_word = 5;\n"
    ".visible .entry bump()\n{\n  .reg .b32 %r1;\n  ld.global.u32 %r1, [shared_word];\n"
    "  add.u32 %r1, %r1, 1;\n  st.global.u32 [shared_word], %r1;\n  ret;\n}\n"
)


def library_of(cuda: Driver, ptx: str) -> int:
    return cuda.make("cuLibraryLoadData", ptx, None, None, 0, None, None, 0)


def global_of(cuda: Driver, name: str, owner: int, symbol: str) -> tuple[int, int]:
    address, size = api.handle(), api.handle()
    cuda.do(name, api.out(address), api.out(size), owner, symbol)
    return address.value, size.value


def run(cuda: Driver, function: int, *values: object) -> None:
    assert cuda.launch(function, (1,), (1,), values) == api.SUCCESS
    cuda.do("cuCtxSynchronize")


def test_functions_of_a_module(cuda: Driver):
    module = cuda.module(api.VARIABLES)
    store = cuda.function(module, "store")
    assert cuda.function(module, "store") == store
    assert cuda.cuModuleGetFunction(api.out(api.handle()), module, "none") == api.NOT_FOUND
    assert cuda.cuModuleGetFunction(api.out(api.handle()), module, None) == api.INVALID_VALUE
    count = ctypes.c_uint()
    cuda.do("cuModuleGetFunctionCount", api.out(count), module)
    functions = (ctypes.c_uint64 * count.value)()
    cuda.do("cuModuleEnumerateFunctions", functions, count.value, module)
    assert store in functions
    assert len(set(functions)) == 2
    assert cuda.make("cuFuncGetModule", store) == module
    cuda.do("cuModuleUnload", module)
    assert cuda.cuModuleUnload(module) == api.INVALID_HANDLE
    assert cuda.launch(store, (1,), (1,), [0, ctypes.c_int(0)]) == api.INVALID_HANDLE


def test_variables_have_their_values_and_are_shared_with_kernels(cuda: Driver):
    module = cuda.module(api.VARIABLES)
    counter, size = global_of(cuda, "cuModuleGetGlobal_v2", module, "counter")
    table, table_size = global_of(cuda, "cuModuleGetGlobal_v2", module, "table")
    assert (size, table_size) == (4, 16)
    assert cuda.words(counter, 1) == [5]
    assert cuda.words(table, 4) == [10, 20, 30, 40]
    result, function = cuda.alloc(4), cuda.function(module, "add_global")
    run(cuda, function, result)
    assert (cuda.words(result, 1), cuda.words(counter, 1)) == ([25], [6])
    cuda.write(table, b"\7\0\0\0" * 4)
    run(cuda, function, result)
    assert cuda.words(result, 1) == [13]
    assert cuda.cuModuleGetGlobal_v2(api.out(api.handle()), None, module, "none") == api.NOT_FOUND
    cuda.do("cuModuleUnload", module)
    assert cuda.cuMemcpyHtoD_v2(counter, b"1234", 4) == api.INVALID_VALUE


def test_two_loads_have_their_own_variables(cuda: Driver):
    first, second = cuda.module(api.VARIABLES), cuda.module(api.VARIABLES)
    result = cuda.alloc(4)
    run(cuda, cuda.function(first, "add_global"), result)
    assert cuda.words(global_of(cuda, "cuModuleGetGlobal_v2", first, "counter")[0], 1) == [6]
    assert cuda.words(global_of(cuda, "cuModuleGetGlobal_v2", second, "counter")[0], 1) == [5]


def test_variables_are_initialised_in_poisoned_memory(fresh):
    done = fresh(
        """
        module = d.module(VARIABLES)
        for name, count in (("counter", 1), ("table", 4)):
            address, size = handle(), handle()
            d.do("cuModuleGetGlobal_v2", out(address), out(size), module, name)
            print(d.words(address.value, count))
        """,
        POISON="1",
    )
    assert done.stdout.splitlines() == ["[5]", "[10, 20, 30, 40]"]


def test_library_is_loaded_before_any_context(fresh):
    done = fresh(
        """
        d.do("cuCtxSetCurrent", 0)
        library = d.make("cuLibraryLoadData", VARIABLES, None, None, 0, None, None, 0)
        kernel = d.make("cuLibraryGetKernel", library, "store")
        offset, size = handle(), handle()
        print([(d.cuKernelGetParamInfo(kernel, i, out(offset), out(size)), offset.value, size.value) for i in range(3)])
        d.do("cuCtxSetCurrent", d.context)
        pointer = d.alloc(4)
        print(d.launch(kernel, (1,), (1,), [pointer, ctypes.c_uint(77)]), d.words(pointer, 1))
        """
    )
    assert done.stdout.splitlines() == ["[(0, 0, 8), (0, 8, 4), (1, 8, 4)]", "0 [77]"]


def test_kernels_of_a_library(cuda: Driver):
    library = library_of(cuda, api.VARIABLES)
    kernel = cuda.make("cuLibraryGetKernel", library, "add_global")
    assert cuda.make("cuLibraryGetKernel", library, "add_global") == kernel
    assert cuda.make("cuKernelGetLibrary", kernel) == library
    name = ctypes.c_char_p()
    cuda.do("cuKernelGetName", api.out(name), kernel)
    assert name.value == b"add_global"
    count = ctypes.c_uint()
    cuda.do("cuLibraryGetKernelCount", api.out(count), library)
    assert count.value == 2
    assert cuda.cuLibraryGetKernel(api.out(api.handle()), library, "none") == api.NOT_FOUND
    function = cuda.make("cuKernelGetFunction", kernel)
    assert cuda.make("cuFuncGetModule", function) == cuda.make("cuLibraryGetModule", library)
    cuda.do("cuLibraryUnload", library)
    assert cuda.cuKernelGetFunction(api.out(api.handle()), kernel) == api.INVALID_HANDLE
    assert cuda.cuLibraryUnload(library) == api.INVALID_HANDLE
    assert cuda.launch(kernel, (1,), (1,), [0]) == api.INVALID_HANDLE


def test_attributes_set_on_a_kernel_reach_its_launches(cuda: Driver):
    kernel = cuda.make("cuLibraryGetKernel", library_of(cuda, api.VARIABLES), "store")
    pointer = cuda.alloc(4)
    values = [pointer, ctypes.c_uint(1)]
    assert cuda.launch(kernel, (1,), (1,), values, shared_bytes=100000) == api.INVALID_VALUE
    cuda.do("cuKernelSetAttribute", 8, 100000, kernel, 0)
    assert cuda.integer("cuKernelGetAttribute", 8, kernel, 0) == 100000
    assert cuda.launch(kernel, (1,), (1,), values, shared_bytes=100000) == api.SUCCESS


def test_each_context_has_its_own_variables_of_a_library(cuda: Driver):
    library = library_of(cuda, api.VARIABLES)
    kernel = cuda.make("cuLibraryGetKernel", library, "add_global")
    run(cuda, kernel, cuda.alloc(4))
    here, _ = global_of(cuda, "cuLibraryGetGlobal", library, "counter")
    other = cuda.make("cuCtxCreate_v2", 0, 0)
    there, _ = global_of(cuda, "cuLibraryGetGlobal", library, "counter")
    assert here != there
    assert (cuda.words(here, 1), cuda.words(there, 1)) == ([6], [5])
    cuda.do("cuCtxDestroy_v2", other)
    assert cuda.words(here, 1) == [6]


def test_managed_variable_is_one_for_all_and_keeps_what_the_host_wrote(fresh):
    done = fresh(
        f"""
        d.do("cuCtxSetCurrent", 0)
        library = d.make("cuLibraryLoadData", {MANAGED!r}, None, None, 0, None, None, 0)
        address, size = handle(), handle()
        d.do("cuLibraryGetManaged", out(address), out(size), library, "shared_word")
        word = ctypes.c_uint32.from_address(address.value)
        print(word.value, size.value)
        word.value = 40
        d.do("cuCtxSetCurrent", d.context)
        kernel = d.make("cuLibraryGetKernel", library, "bump")
        print(d.launch(kernel, (1,), (1,), []), d.cuCtxSynchronize(), word.value)
        d.make("cuCtxCreate_v2", 0, 0)
        print(d.launch(kernel, (1,), (1,), []), d.cuCtxSynchronize(), word.value)
        """
    )
    assert done.stdout.splitlines() == ["5 4", "0 0 41", "0 0 42"]


def test_linker_passes_one_input_through(cuda: Driver):
    state, image, size = api.handle(), api.handle(), api.handle()
    cuda.do("cuLinkCreate_v2", 0, None, None, api.out(state))
    ptx = api.VECTOR_ADD.encode() + b"\0"
    cuda.do("cuLinkAddData_v2", state, 1, ptx, len(ptx), "x.ptx", 0, None, None)
    cuda.do("cuLinkComplete", state, api.out(image), api.out(size))
    cuda.function(cuda.make("cuModuleLoadData", image.value), "vector_add")
    assert cuda.cuLinkAddData_v2(state, 1, ptx, len(ptx), "y.ptx", 0, None, None) == api.INVALID_VALUE
    cuda.do("cuLinkDestroy", state)
    assert cuda.cuLinkDestroy(state) == api.INVALID_HANDLE


@pytest.mark.parametrize("name", ["cuModuleUnload", "cuLibraryUnload"])
def test_invented_module_handles(cuda: Driver, name: str):
    assert getattr(cuda, name)(0xDEAD0) == api.INVALID_HANDLE
