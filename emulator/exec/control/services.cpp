#include "exec/control/services.hpp"

#include <cstdio>
#include <cstring>

#include "exec/control/device_launch.hpp"
#include "exec/control/print.hpp"

namespace emulator {

namespace {

// Reads the argument of a call, in the caller's frame.
template <typename T> T argument(const Warp &w, const Callee &callee, uint32_t lane, size_t number) {
  T value{};
  if (number < callee.arguments.size()) {
    const ParameterBytes &bytes = callee.arguments[number];
    uint64_t from = w.local_base + lane * w.local_stride + w.local_offset + bytes.offset;
    std::memcpy(&value, reinterpret_cast<const void *>(from),
                sizeof value < bytes.size_bytes ? sizeof value : bytes.size_bytes);
  }
  return value;
}

template <typename T> void give_back(const Warp &w, const Callee &callee, uint32_t lane, T value) {
  if (callee.returns.empty())
    return;
  const ParameterBytes &bytes = callee.returns[0];
  uint64_t to = w.local_base + lane * w.local_stride + w.local_offset + bytes.offset;
  std::memcpy(reinterpret_cast<void *>(to), &value,
              sizeof value < bytes.size_bytes ? sizeof value : bytes.size_bytes);
}

} // namespace

// Every lane that is here has failed it; the form of a line is the CUDA C++ Programming Guide's
// ("Assertion").
[[noreturn]] static void report_assertion(Warp &w, const Instruction *i, const Callee &callee) {
  const uint32_t *block = w.position;
  const Dim3 &n = w.launch->request->block;
  auto triple = [](uint32_t x, uint32_t y, uint32_t z) {
    return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
  };
  std::string lines = "an assertion failed";
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(lanes)), linear = w.index * lanes_per_warp + lane;
    auto text = [&](size_t number) {
      uint64_t address = argument<uint64_t>(w, callee, lane, number);
      return address ? read_string(w, i, lane, address) : std::string("?");
    };
    lines += "\n" + text(1) + ":" + std::to_string(argument<uint32_t>(w, callee, lane, 2)) + ": " + text(3) +
             ": block: " + triple(block[0], block[1], block[2]) +
             ", thread: " + triple(linear % n.x, linear / n.x % n.y, linear / n.x / n.y) + " Assertion `" +
             text(0) + "` failed.";
  }
  fail(w, i, LaunchStatus::assertion, lines, static_cast<uint32_t>(__builtin_ctz(w.active)));
}

void run_service(Warp &w, const Instruction *i, const Callee &callee) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(lanes));
    switch (callee.kind) {
    case CalleeKind::vprintf:
      give_back<int32_t>(
          w, callee, lane,
          print(w, i, lane, argument<uint64_t>(w, callee, lane, 0), argument<uint64_t>(w, callee, lane, 1)));
      break;
    case CalleeKind::malloc:
      give_back<uint64_t>(w, callee, lane,
                          w.launch->memory->device_malloc(argument<uint64_t>(w, callee, lane, 0)));
      break;
    case CalleeKind::free:
      if (uint64_t address = argument<uint64_t>(w, callee, lane, 0))
        w.launch->memory->device_free(address);
      break;
    case CalleeKind::parameter_buffer: {
      auto grid = argument<Dim3>(w, callee, lane, 1), block = argument<Dim3>(w, callee, lane, 2);
      give_back<uint64_t>(w, callee, lane,
                          parameter_buffer(w, lane, argument<uint64_t>(w, callee, lane, 0), grid, block,
                                           argument<uint32_t>(w, callee, lane, 3)));
      break;
    }
    case CalleeKind::launch:
      give_back<uint32_t>(w, callee, lane,
                          launch_from_device(w, i, lane, argument<uint64_t>(w, callee, lane, 0),
                                             argument<uint64_t>(w, callee, lane, 1)));
      break;
    case CalleeKind::last_error:
    case CalleeKind::peek_error:
      give_back<uint32_t>(w, callee, lane, last_device_error(w, lane, callee.kind == CalleeKind::last_error));
      break;
    case CalleeKind::assertfail:
      report_assertion(w, i, callee);
    default:
      break;
    }
  }
}

const FunctionCode *function_at(const Warp &w, uint64_t address) {
  uint64_t distance = address - first_function_address;
  const ptx::Module &module = *w.launch->module;
  if (distance % function_address_step != 0 || distance / function_address_step >= module.functions.size())
    return nullptr;
  const ptx::Function *function = &module.functions[distance / function_address_step];
  for (const FunctionCode &code : w.program->functions)
    if (code.function == function)
      return &code;
  return nullptr;
}

} // namespace emulator
