#include "function.hpp"

#include "device/device.hpp"
#include "entry/entry.hpp"
#include "module.hpp"

namespace emulator::driver {
namespace {

constexpr uint32_t default_shared_bytes = 49152; // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK

} // namespace

// Documented with CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
uint32_t Function::dynamic_shared_limit() const {
  if (max_dynamic_shared_bytes >= 0)
    return static_cast<uint32_t>(max_dynamic_shared_bytes);
  return info->static_shared_bytes > default_shared_bytes ? 0
                                                          : default_shared_bytes - info->static_shared_bytes;
}

std::shared_ptr<Function> function_of(Context &context, CUfunction handle) {
  if (auto function = driver().functions.find(handle))
    return function;
  // The runtime hands a CUkernel to functions that take a CUfunction; the driver's documentation allows it.
  auto kernel = driver().kernels.find(reinterpret_cast<CUkernel>(handle));
  require(kernel != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return function_of_kernel(context, *kernel);
}

uint32_t Function::registers() const {
  return module->max_registers ? std::min(info->registers_per_thread, module->max_registers)
                               : info->registers_per_thread;
}

int get_attribute(const Function &function, const Device &device, CUfunction_attribute attribute) {
  const KernelInfo &info = *function.info;
  const uint32_t *cluster = info.required_cluster[0] ? info.required_cluster : function.required_cluster;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return static_cast<int>(info.max_threads_per_block);
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    return static_cast<int>(info.static_shared_bytes);
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    return static_cast<int>(info.constant_bytes);
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    return static_cast<int>(info.local_bytes_per_thread);
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    return static_cast<int>(function.registers());
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    return static_cast<int>(info.target_sm); // the virtual architecture, as documented, not the ISA version
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    return device.architecture.sm;
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    return 0;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return static_cast<int>(function.dynamic_shared_limit());
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return function.carveout;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    return 0;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    return static_cast<int>(cluster[0]);
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    return static_cast<int>(cluster[1]);
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    return static_cast<int>(cluster[2]);
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    return function.non_portable_cluster;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    return function.cluster_policy;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void set_attribute(Function &function, const Device &device, CUfunction_attribute attribute, int value) {
  const KernelInfo &info = *function.info;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    require(value >= 0 && static_cast<uint64_t>(value) + info.static_shared_bytes <=
                              device.architecture.shared_per_block_optin_bytes,
            CUDA_ERROR_INVALID_VALUE);
    function.max_dynamic_shared_bytes = value;
    return;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    require(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
    function.carveout = value;
    return;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
    // Documented: not for kernels whose cluster was set at compile time.
    require(value >= 0 && info.required_cluster[0] == 0, CUDA_ERROR_NOT_PERMITTED);
    function.required_cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] =
        static_cast<uint32_t>(value);
    return;
  }
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    function.non_portable_cluster = value != 0;
    return;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    function.cluster_policy = value;
    return;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void get_parameter(const KernelInfo &info, size_t index, size_t *offset, size_t *size) {
  require(offset != nullptr && index < info.parameters.size(), CUDA_ERROR_INVALID_VALUE);
  *offset = info.parameters[index].offset_bytes;
  if (size)
    *size = info.parameters[index].size_bytes;
}

} // namespace emulator::driver

using namespace emulator::driver;

CUresult CUDAAPI cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
  return enter("cuFuncGetAttribute", Needs::healthy, [&](Call &call) {
    require(pi != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pi = get_attribute(*function_of(*call.context, hfunc), call.context->device, attrib);
  });
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return enter("cuFuncSetAttribute", Needs::healthy, [&](Call &call) {
    set_attribute(*function_of(*call.context, hfunc), call.context->device, attrib, value);
  });
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction hfunc) {
  return enter("cuFuncGetName", Needs::healthy, [&](Call &call) {
    require(name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *name = function_of(*call.context, hfunc)->name.c_str();
  });
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
  return enter("cuFuncGetModule", Needs::healthy, [&](Call &call) {
    require(hmod != nullptr, CUDA_ERROR_INVALID_VALUE);
    *hmod = handle_of<CUmodule>(function_of(*call.context, hfunc)->module);
  });
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                                    size_t *paramSize) {
  return enter("cuFuncGetParamInfo", Needs::healthy, [&](Call &call) {
    get_parameter(*function_of(*call.context, func)->info, paramIndex, paramOffset, paramSize);
  });
}

CUresult CUDAAPI cuFuncGetParamCount(CUfunction func, size_t *paramCount) {
  return enter("cuFuncGetParamCount", Needs::healthy, [&](Call &call) {
    require(paramCount != nullptr, CUDA_ERROR_INVALID_VALUE);
    *paramCount = function_of(*call.context, func)->info->parameters.size();
  });
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  return enter("cuFuncSetCacheConfig", Needs::healthy, [&](Call &call) {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL,
            CUDA_ERROR_INVALID_VALUE);
    function_of(*call.context, hfunc); // a hint without effect
  });
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  return enter("cuFuncSetSharedMemConfig", Needs::healthy, [&](Call &call) {
    require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE,
            CUDA_ERROR_INVALID_VALUE);
    function_of(*call.context, hfunc);
  });
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  return enter("cuFuncIsLoaded", Needs::healthy, [&](Call &call) {
    require(state != nullptr, CUDA_ERROR_INVALID_VALUE);
    function_of(*call.context, function);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
  });
}

CUresult CUDAAPI cuFuncLoad(CUfunction function) {
  return enter("cuFuncLoad", Needs::healthy, [&](Call &call) { function_of(*call.context, function); });
}
