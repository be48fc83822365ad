#include "exec/control/device_launch.hpp"

#include <algorithm>
#include <cstring>

#include "exec/access/access.hpp"
#include "exec/block/block.hpp"
#include "exec/control/services.hpp"

namespace emulator {

namespace {

// Numbers of cudaError_t and special values of cudaStream_t (driver_types.h).
constexpr uint32_t success = 0, invalid_value = 1, invalid_configuration = 9, max_depth_exceeded = 65,
                   invalid_device_function = 98;
constexpr uint64_t tail_launch_stream = 3;
constexpr size_t most_waiting = 1 << 20;
constexpr uint32_t most_depth = 24; // CUDA C++ Programming Guide: the maximum nesting depth

uint64_t thread_of(const Warp &w, uint32_t lane) {
  return w.block->index * 1024 + w.index * lanes_per_warp + lane;
}

uint32_t failed(Warp &w, uint32_t lane, uint32_t error) {
  if (error != success)
    w.worker->device_errors[thread_of(w, lane)] = error;
  return error;
}

uint64_t parameter_bytes(const ptx::Function &kernel) {
  uint64_t end = 0;
  for (const ptx::Variable &parameter : kernel.parameters) {
    uint64_t alignment = std::max<uint64_t>(parameter.alignment_bytes, 1);
    end = (end + alignment - 1) / alignment * alignment + parameter.size_bytes;
  }
  return end;
}

const ptx::Function *kernel_at(const Warp &w, uint64_t address) {
  uint64_t distance = address - first_function_address;
  const ptx::Module &module = *w.launch->module;
  if (distance % function_address_step != 0 || distance / function_address_step >= module.functions.size())
    return nullptr;
  const ptx::Function &function = module.functions[distance / function_address_step];
  return function.is_entry && !function.is_extern ? &function : nullptr;
}

} // namespace

uint64_t parameter_buffer(Warp &w, uint32_t lane, uint64_t function, const Dim3 &grid, const Dim3 &block,
                          uint32_t shared_bytes) {
  const ptx::Function *kernel = kernel_at(w, function);
  if (w.launch->request->depth >= most_depth)
    return failed(w, lane, max_depth_exceeded), 0;
  if (!kernel)
    return failed(w, lane, invalid_device_function), 0;
  uint64_t threads = uint64_t{block.x} * block.y * block.z;
  bool fits = grid.x != 0 && grid.y != 0 && grid.z != 0 && grid.x <= INT32_MAX && grid.y <= 65535 &&
              grid.z <= 65535 && threads != 0 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
              threads <= 1024 && w.worker->device_launches.size() < most_waiting;
  if (!fits)
    return failed(w, lane, invalid_configuration), 0;
  uint64_t bytes = parameter_bytes(*kernel);
  uint64_t buffer = w.launch->memory->device_malloc(std::max<uint64_t>(bytes, 8));
  if (buffer != 0)
    w.worker->parameter_buffers[buffer] = {kernel, grid, block, shared_bytes, std::vector<uint8_t>(bytes),
                                           false};
  return buffer;
}

uint32_t launch_from_device(Warp &w, const Instruction *i, uint32_t lane, uint64_t buffer, uint64_t stream) {
  auto found = w.worker->parameter_buffers.find(buffer);
  if (found == w.worker->parameter_buffers.end())
    return failed(w, lane, invalid_value);
  DeviceLaunch launch = std::move(found->second);
  w.worker->parameter_buffers.erase(found);
  if (!launch.parameters.empty()) {
    check_access(w, i, lane, buffer, static_cast<uint32_t>(launch.parameters.size()), false);
    std::memcpy(launch.parameters.data(), reinterpret_cast<const void *>(buffer), launch.parameters.size());
  }
  w.launch->memory->device_free(buffer);
  launch.is_tail = stream == tail_launch_stream;
  w.worker->device_launches.push_back(std::move(launch));
  return success;
}

uint32_t last_device_error(Warp &w, uint32_t lane, bool takes) {
  auto found = w.worker->device_errors.find(thread_of(w, lane));
  if (found == w.worker->device_errors.end())
    return success;
  uint32_t error = found->second;
  if (takes)
    w.worker->device_errors.erase(found);
  return error;
}

} // namespace emulator
