// Kernel launches: validation first, then one piece of work in a stream.
#include "launch.hpp"

#include "core/cost_model.hpp"
#include "device/device.hpp"
#include "device_memory.hpp"
#include "entry/counters_file.hpp"
#include "entry/entry.hpp"
#include "entry/findings_file.hpp"
#include "entry/print_buffer.hpp"
#include "entry/touched_file.hpp"
#include "module/function.hpp"
#include "module/module.hpp"
#include "occupancy.hpp"
#include "races/work_races.hpp"
#include "stream/recorder.hpp"

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

namespace emulator::driver {
namespace {

constexpr uint32_t portable_cluster_blocks = 8;
constexpr uint32_t non_portable_cluster_blocks = 16;

uint64_t volume(const Dim3 &size) { return uint64_t{size.x} * size.y * size.z; }

bool matches(const setting::pattern &pattern, const std::string &name) {
  return pattern && std::regex_search(name, *pattern);
}

void require_geometry(const Function &function, const Device &device, const LaunchShape &shape,
                      Grid allowed) {
  const auto &[grid, block, cluster, dynamic_shared_bytes, cooperative, completion_event] = shape;
  require((volume(grid) > 0 || allowed == Grid::may_be_empty) && volume(block) > 0, CUDA_ERROR_INVALID_VALUE);
  require(grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535, CUDA_ERROR_INVALID_VALUE);
  require(block.x <= 1024 && block.y <= 1024 && block.z <= 64 && volume(block) <= 1024,
          CUDA_ERROR_INVALID_VALUE);
  const KernelInfo &info = *function.info;
  // Not yet seen on a GPU (GT-ERROR-CODES): which error a block above .maxntid gets.
  require(volume(block) <= info.max_threads_per_block, CUDA_ERROR_INVALID_VALUE);
  if (info.required_block[0])
    require(block.x == info.required_block[0] && block.y == info.required_block[1] &&
                block.z == info.required_block[2],
            CUDA_ERROR_INVALID_VALUE);
  require(dynamic_shared_bytes <= function.dynamic_shared_limit(), CUDA_ERROR_INVALID_VALUE);
  if (cooperative) {
    uint64_t resident = uint64_t{settings().multiprocessors} *
                        blocks_per_multiprocessor(function, device, static_cast<uint32_t>(volume(block)),
                                                  dynamic_shared_bytes);
    require(volume(grid) <= resident, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  }
}

// The parameters packed as the kernel expects them. Copied at the call: the caller's memory may go at once.
std::vector<uint8_t> packed_parameters(const KernelInfo &info, void **parameters, void **extra) {
  require(!(parameters && extra), CUDA_ERROR_INVALID_VALUE);
  std::vector<uint8_t> packed(info.parameter_bytes);
  if (extra) {
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (void **item = extra; *item != CU_LAUNCH_PARAM_END; item += 2) {
      if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER)
        buffer = item[1];
      else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE)
        bytes = *static_cast<const size_t *>(item[1]);
      else
        fail(CUDA_ERROR_INVALID_VALUE);
    }
    require(packed.empty() || (buffer && bytes >= packed.size()), CUDA_ERROR_INVALID_VALUE);
    if (!packed.empty())
      std::memcpy(packed.data(), buffer, packed.size());
    return packed;
  }
  require(info.parameters.empty() || parameters, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < info.parameters.size(); ++i) {
    require(parameters[i] != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::memcpy(packed.data() + info.parameters[i].offset_bytes, parameters[i],
                info.parameters[i].size_bytes);
  }
  return packed;
}

CUresult error_of(LaunchStatus status) {
  switch (status) {
  case LaunchStatus::ok:
    return CUDA_SUCCESS;
  case LaunchStatus::illegal_address:
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  case LaunchStatus::misaligned_address:
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  case LaunchStatus::illegal_instruction:
    return CUDA_ERROR_ILLEGAL_INSTRUCTION;
  case LaunchStatus::assertion:
    return CUDA_ERROR_ASSERT;
  case LaunchStatus::timeout:
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  case LaunchStatus::out_of_resources:
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  case LaunchStatus::stack_overflow: // documented: "possibly due to ... exceeding the stack size limit"
    return CUDA_ERROR_HARDWARE_STACK_ERROR;
  case LaunchStatus::deadlock: // a GPU would hang; this driver has seen that nothing can go on
    return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_UNKNOWN;
}

// A kernel that never ends, for tests of watchdogs. It ends at the timeout, if there is one.
Outcome hang() {
  using clock = std::chrono::steady_clock;
  auto end = clock::now() + std::chrono::milliseconds(settings().timeout_ms);
  while (settings().timeout_ms == 0 || clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return {CUDA_ERROR_LAUNCH_TIMEOUT, settings().timeout_ms * 1000000};
}

} // namespace

Outcome KernelOperation::run(uint64_t number, std::function<bool()> prerequisite) const {
  const std::string &name = function->name;
  if (matches(settings().crash, name)) {
    // Not the application's handler: what is tested is a process that dies.
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (matches(settings().hang, name))
    return hang();
  LaunchRequest request;
  request.grid = shape.grid;
  request.block = shape.block;
  request.cluster = shape.cluster;
  request.dynamic_shared_bytes = shape.dynamic_shared_bytes;
  request.cooperative = shape.cooperative;
  request.parameters = parameters.data();
  request.parameter_bytes = parameters.size();
  request.multiprocessors = static_cast<uint32_t>(settings().multiprocessors);
  request.worker_threads = static_cast<uint32_t>(settings().worker_threads);
  request.timeout_ms = settings().timeout_ms;
  request.fuse_multiply_add = settings().fuse;
  request.shared_unit_bytes = where->device.architecture.shared_unit_bytes();
  request.exact_shared = settings().exact_shared;
  request.interleave = settings().interleave;
  request.deferred = settings().deferred;
  request.deferred_seed = settings().deferred_seed;
  request.prerequisite = std::move(prerequisite);
  request.record_touched = !settings().touched.empty();
  request.checks = settings().checks.bits;
  request.record_costs = !settings().counters.empty() && number < launches_with_costs;
  request.notes_each = request.record_touched || request.record_costs || request.checks & bit_of(Check::race);
  request.takes_notes = request.notes_each || request.checks & bit_of(Check::init);
  std::shared_ptr<MemoryMap> memory;
  WatchedPages watched;
  {
    Lock lock(driver().mutex);
    request.stack_bytes = where->limits.at(CU_LIMIT_STACK_SIZE);
    memory = device_memory(*where);
    if (may_race(*where)) {
      watched = unordered_pages();
      request.record_touched = true;
      request.watched = &watched;
    }
  }
  request.notes_each |= request.record_touched;
  request.takes_notes |= request.notes_each;
  request.print = [this](std::string text, size_t bytes) { hold_print(*where, std::move(text), bytes); };
  LaunchResult result = module->instance->launch(*function->info, request, *memory);
  if (result.status != LaunchStatus::ok)
    tell(result.message);
  auto threads = static_cast<uint32_t>(volume(shape.block));
  GridShape grid{volume(shape.grid), (threads + 31) / 32,
                 blocks_per_multiprocessor(*function, where->device, threads, shape.dynamic_shared_bytes)};
  KernelTime time = parts_of_time(result.counters, grid, request.multiprocessors);
  uint64_t modelled_ns = kernel_ns(name, time, number);
  append_counters(name, request, result, number, time, modelled_ns);
  append_touched(name, result);
  if (request.watched)
    find_launch_races(name, number, result);
  append_findings(name, result, number);
  return {error_of(result.status), modelled_ns};
}

LaunchShape shape_of(const CUlaunchConfig &config) {
  LaunchShape shape;
  shape.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  shape.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  shape.dynamic_shared_bytes = config.sharedMemBytes;
  require(config.numAttrs == 0 || config.attrs != nullptr, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < config.numAttrs; ++i)
    apply_attribute(shape, config.attrs[i]);
  return shape;
}

void apply_attribute(LaunchShape &shape, const CUlaunchAttribute &attribute) {
  const CUlaunchAttributeValue &value = attribute.value;
  switch (attribute.id) {
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    shape.cooperative = value.cooperative != 0;
    break;
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    require(value.clusterDim.x > 0 && value.clusterDim.y > 0 && value.clusterDim.z > 0,
            CUDA_ERROR_INVALID_VALUE);
    shape.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    break;
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    shape.completion_event = value.programmaticEvent.event;
    break;
  case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    shape.completion_event = value.launchCompletionEvent.event;
    break;
  // Hints about speed or overlap: a kernel that runs alone and to its end satisfies each of them.
  case CU_LAUNCH_ATTRIBUTE_IGNORE:
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    break;
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:       // valid for streams only
  case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: // valid while capturing only
    fail(CUDA_ERROR_INVALID_VALUE);
  default:
    // Attributes of newer headers (preferred cluster, carve-out, NVLink scheduling, ...) are hints as well.
    require(static_cast<int>(attribute.id) > CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN &&
                static_cast<int>(attribute.id) < 64,
            CUDA_ERROR_INVALID_VALUE);
  }
}

uint32_t largest_cluster(const Function &function) {
  return function.non_portable_cluster ? non_portable_cluster_blocks : portable_cluster_blocks;
}

void require_cluster(const Function &function, const Device &device, LaunchShape &shape) {
  const uint32_t *own =
      function.info->required_cluster[0] ? function.info->required_cluster : function.required_cluster;
  if (own[0]) {
    Dim3 needed{own[0], std::max(own[1], 1u), std::max(own[2], 1u)};
    bool given = volume(shape.cluster) != 1;
    bool equal = shape.cluster.x == needed.x && shape.cluster.y == needed.y && shape.cluster.z == needed.z;
    require(!given || equal, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    shape.cluster = needed;
  }
  if (volume(shape.cluster) == 1)
    return;
  require(device.architecture.sm >= 90, CUDA_ERROR_NOT_SUPPORTED);
  require(volume(shape.cluster) <= largest_cluster(function), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  require(shape.grid.x % shape.cluster.x == 0 && shape.grid.y % shape.cluster.y == 0 &&
              shape.grid.z % shape.cluster.z == 0,
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

// What a kernel wants of a GPU that this driver has not, by what its first missing instruction begins with or
// the function that it calls: people know their program by these names, not by the opcode.
static std::string missing_feature(std::string_view unsupported) {
  static constexpr std::pair<std::string_view, std::string_view> features[] = {
      {"mma.sp", "sparse matrices"},
      {"wgmma.mma_async.sp", "sparse matrices"},
      {"tex.", "textures"},
      {"tld4.", "textures"},
      {"txq.", "textures"},
      {"suld.", "surfaces"},
      {"sust.", "surfaces"},
      {"sured.", "surfaces"},
      {"suq.", "surfaces"},
      {"cp.async.bulk.tensor.", "tensor maps"},
      {"multimem.", "multicast memory"},
      {"tileir.", "Tile IR (CUDA Tile)"},
  };
  for (const auto &[beginning, feature] : features)
    if (unsupported.substr(0, beginning.size()) == beginning)
      return "; it needs " + std::string(feature) + ", which this driver has not";
  if (unsupported.find("cudaCDP") != std::string_view::npos ||
      unsupported.find("cudaLaunchDevice") != std::string_view::npos ||
      unsupported.find("cudaGetParameterBuffer") != std::string_view::npos)
    return "; it is a part of dynamic parallelism that this driver has not";
  if (unsupported.find("cudaGraph") != std::string_view::npos ||
      unsupported.find("current_graph_exec") != std::string_view::npos)
    return "; graphs are launched and changed by the host alone here";
  return "";
}

std::shared_ptr<KernelOperation> prepare_launch(CUfunction handle, const std::shared_ptr<Function> &function,
                                                LaunchShape shape, LaunchAttributes attributes,
                                                void **parameters, void **extra, Grid allowed) {
  const KernelInfo &info = *function->info;
  auto launch = std::make_shared<KernelOperation>();
  launch->parameters = packed_parameters(info, parameters, extra);
  launch->where = function->module->context;
  require_geometry(*function, launch->where->device, shape, allowed);
  require_cluster(*function, launch->where->device, shape);
  if (!info.unsupported.empty()) {
    // Line 0: a syntax error inside the body, which names its own line.
    std::string what = info.unsupported_line
                           ? "line " + std::to_string(info.unsupported_line) + ": " + info.unsupported +
                                 " is not implemented" + missing_feature(info.unsupported)
                           : info.unsupported;
    tell("kernel " + function->name + " is not launched: PTX " + what);
    fail(CUDA_ERROR_NOT_SUPPORTED);
  }
  launch->handle = handle;
  launch->module = function->module->shared_from_this();
  launch->function = function;
  launch->shape = shape;
  launch->attributes = std::move(attributes);
  return launch;
}

static uint64_t next_number() {
  static uint64_t launches = 0; // under the driver's lock
  return launches++;
}

Works KernelOperation::works() const {
  return one_work([launch = shared_from_this(), number = next_number()] { return launch->run(number); });
}

Works KernelOperation::works_at_call() const {
  uint64_t number = next_number(), seed = settings().deferred_seed;
  Works works = one_work([launch = shared_from_this(), number] { return launch->run(number); });
  works.front()->lets_next_begin = settings().deferred && function->info->releases_dependents;
  auto early = attributes.find(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  // With a seed, about half of them: a hash of seed and number.
  bool drawn = seed == 0 || ((seed + number) * 0x9e3779b97f4a7c15) >> 63;
  if (early != attributes.end() && early->second.programmaticStreamSerializationAllowed && drawn)
    works.front()->run_around = [launch = shared_from_this(), number](const std::function<bool()> &earlier) {
      return launch->run(number, earlier);
    };
  return works;
}

static void launch(Call &call, CUfunction handle, LaunchShape shape, CUstream stream_handle,
                   void **parameters, void **extra, LaunchAttributes attributes = {}) {
  auto stream = stream_of(*call.context, stream_handle);
  auto function = function_of(*stream->context, handle); // documented: a CUkernel runs where its stream is
  require(function->module->context == stream->context, CUDA_ERROR_INVALID_HANDLE);
  auto event = shape.completion_event ? driver().events.get(shape.completion_event) : nullptr;
  submit(call.lock, stream,
         prepare_launch(handle, function, shape, std::move(attributes), parameters, extra));
  if (event)
    record(call.lock, stream, *event);
}

} // namespace emulator::driver

using namespace emulator::driver;

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                void **kernelParams, void **extra) {
  return enter("cuLaunchKernel", Needs::healthy, hStream, [&](Call &call) {
    LaunchShape shape;
    shape.grid = {gridDimX, gridDimY, gridDimZ};
    shape.block = {blockDimX, blockDimY, blockDimZ};
    shape.dynamic_shared_bytes = sharedMemBytes;
    launch(call, f, shape, hStream, kernelParams, extra);
  });
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                  void **extra) {
  return enter("cuLaunchKernelEx", Needs::healthy, [&](Call &call) {
    require(config != nullptr, CUDA_ERROR_INVALID_VALUE);
    LaunchShape shape = shape_of(*config);
    LaunchAttributes attributes;
    for (unsigned i = 0; i < config->numAttrs; ++i)
      attributes[config->attrs[i].id] = config->attrs[i].value;
    launch(call, f, shape, config->hStream, kernelParams, extra, std::move(attributes));
  });
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                           unsigned int gridDimZ, unsigned int blockDimX,
                                           unsigned int blockDimY, unsigned int blockDimZ,
                                           unsigned int sharedMemBytes, CUstream hStream,
                                           void **kernelParams) {
  return enter("cuLaunchCooperativeKernel", Needs::healthy, hStream, [&](Call &call) {
    LaunchShape shape;
    shape.grid = {gridDimX, gridDimY, gridDimZ};
    shape.block = {blockDimX, blockDimY, blockDimZ};
    shape.dynamic_shared_bytes = sharedMemBytes;
    shape.cooperative = true;
    CUlaunchAttributeValue cooperative{};
    cooperative.cooperative = 1;
    launch(call, f, shape, hStream, kernelParams, nullptr, {{CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative}});
  });
}
