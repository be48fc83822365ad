// A parsed text, and one whose globals have been given places.
#include "exec/module/module.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "exec/access/access_costs.hpp"
#include "exec/access/touched.hpp"
#include "exec/block/cluster.hpp"
#include "exec/control/services.hpp"
#include "exec/decode/decode.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/parameter_memory.hpp"
#include "exec/module/device_runtime.hpp"
#include "ptx/module/parse_module.hpp"

namespace emulator {

namespace {

// Declarations that another text's definition has replaced take no memory of their own, and neither do those
// that nobody defines: an unresolved name is an error only where something uses it.
bool is_placed(const ptx::Variable &v) {
  return (v.space == ptx::Space::global || v.space == ptx::Space::constant) && !v.is_replaced && !v.is_extern;
}

class ParsedModule final : public Module {
public:
  explicit ParsedModule(std::unique_ptr<ptx::Module> text) : text_(std::move(text)) {
    for (const ptx::Variable &v : text_->variables)
      if (is_placed(v))
        globals_.push_back({std::string(v.name), v.size_bytes, v.alignment_bytes, v.is_managed,
                            static_cast<OpaqueKind>(v.opaque)});
    for (const ptx::Function &f : text_->functions) {
      function_index_[&f] = function_index_.size();
      if (f.is_entry && !f.is_extern && !f.is_replaced)
        kernels_.push_back(std::string(f.name));
    }
  }
  const std::vector<GlobalInfo> &globals() const override { return globals_; }
  const std::vector<std::string> &kernel_names() const override { return kernels_; }
  const ptx::Module &text() const { return *text_; }
  uint64_t function_address(const ptx::Function &function) const {
    auto found = function_index_.find(&function);
    return found == function_index_.end() ? 0
                                          : first_function_address + found->second * function_address_step;
  }

private:
  std::unique_ptr<ptx::Module> text_;
  std::vector<GlobalInfo> globals_;
  std::vector<std::string> kernels_;
  std::map<const ptx::Function *, size_t> function_index_;
};

class PlacedInstance final : public Instance {
public:
  explicit PlacedInstance(std::shared_ptr<const ParsedModule> module) : module_(std::move(module)) {}

  const Module &module() const override { return *module_; }

  uint64_t global_address(std::string_view name) const override {
    auto found = module_->text().names.find(name);
    const ptx::Variable *variable =
        found == module_->text().names.end() ? nullptr : found->second.symbol.variable;
    return variable ? address_of(*variable) : 0;
  }

  const KernelInfo *kernel(std::string_view name) const override {
    const Program *program = decoded(name, {});
    return program ? &program->info : nullptr;
  }

  LaunchResult launch(const KernelInfo &kernel, const LaunchRequest &request,
                      MemoryMap &memory) const override;

  bool place(const PlaceGlobal &place_global, std::string &log) {
    size_t next = 0;
    for (const ptx::Variable &v : module_->text().variables) {
      if (!is_placed(v))
        continue;
      const GlobalInfo &info = module_->globals()[next++];
      uint64_t address = place_global(info);
      if (address == 0) {
        log = "out of memory for the variable " + info.name + " of " + std::to_string(info.size_bytes) +
              " bytes";
        return false;
      }
      addresses_[&v] = address;
    }
    for (const ptx::Variable &v : module_->text().variables) {
      auto found = addresses_.find(&v);
      if (found == addresses_.end())
        continue;
      uint8_t *to = reinterpret_cast<uint8_t *>(found->second);
      if (!v.bytes.empty())
        std::memcpy(to, v.bytes.data(), v.bytes.size());
      for (const ptx::AddressInitialiser &a : v.addresses) {
        uint64_t value;
        if (!symbol_address(v, a.symbol, value)) {
          log = "line " + std::to_string(v.line) + ": the initial value of " + std::string(v.name) +
                " names " + std::string(a.symbol) + ", which is not defined";
          return false;
        }
        value += static_cast<uint64_t>(a.addend);
        if (a.mask != ~uint64_t{0} && a.mask != 0)
          value = (value & a.mask) >> __builtin_ctzll(a.mask);
        std::memcpy(to + a.offset_bytes, &value, a.size_bytes < 8 ? a.size_bytes : 8);
      }
    }
    return true;
  }

private:
  uint64_t address_of(const ptx::Variable &v) const {
    auto found = addresses_.find(&v);
    return found == addresses_.end() ? 0 : found->second;
  }

  // What a name means in the text that declares `in`.
  bool symbol_address(const ptx::Variable &in, std::string_view name, uint64_t &value) const {
    const ptx::Module &module = module_->text();
    const ptx::Names &names = module.texts[in.text].names;
    auto found = names.find(name);
    if (found == names.end())
      return false;
    if (found->second.symbol.variable)
      return (value = address_of(*found->second.symbol.variable)) != 0;
    if (found->second.symbol.function->is_extern)
      return false;
    return (value = module_->function_address(*found->second.symbol.function)) != 0;
  }

  // The codes of a kernel live side by side: which one runs is the launch's to say.
  const Program *decoded(std::string_view name, const CodeForm &form) const {
    auto found = module_->text().names.find(name);
    const ptx::Function *function =
        found == module_->text().names.end() ? nullptr : found->second.symbol.function;
    return function && function->is_entry && !function->is_extern ? decoded(*function, form) : nullptr;
  }
  const Program *decoded(const ptx::Function &function, const CodeForm &form) const {
    std::lock_guard<std::mutex> hold(lock_);
    std::unique_ptr<Program> &program = programs_[{&function, form}];
    if (!program)
      program = decode_kernel(
          module_->text(), function, [this](const ptx::Variable &v) { return address_of(v); }, form);
    return program.get();
  }
  LaunchResult run(const Program &program, const LaunchRequest &request, MemoryMap &memory,
                   std::vector<DeviceLaunch> &launched) const;
  void run_launched(const std::vector<DeviceLaunch> &launched, const LaunchRequest &by, MemoryMap &memory,
                    LaunchResult &result) const;

  std::shared_ptr<const ParsedModule> module_;
  std::map<const ptx::Variable *, uint64_t> addresses_;
  mutable std::mutex lock_;
  mutable std::map<std::pair<const ptx::Function *, CodeForm>, std::unique_ptr<Program>> programs_;
};

constexpr size_t grid_workspace_bytes = 4096;
constexpr uint64_t most_register_bytes = uint64_t{1} << 31;

// As zlib has it, bit by bit: for a recording alone.
uint32_t crc32(std::string_view text) {
  uint32_t crc = ~uint32_t{0};
  for (unsigned char c : text) {
    crc ^= c;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// With a seed another warp may go on after any instruction, as with `interleave`.
CodeForm form_of(const LaunchRequest &request) {
  bool stepwise = request.interleave != 0 || (request.deferred && request.deferred_seed != 0);
  return {request.fuse_multiply_add,
          stepwise,
          request.deferred,
          request.checks != 0,
          (request.checks & (bit_of(Check::numbers) | bit_of(Check::cancellation))) != 0,
          (request.checks & bit_of(Check::init)) != 0};
}

// Whether copies are deferred so that what is read before it was waited for is seen: not beside products that
// would be deferred with them.
bool defers_copies(const Program &program, const LaunchRequest &request) {
  const std::vector<MatrixForm> &all = program.matrices;
  return (request.checks & bit_of(Check::init)) && program.has_asynchronous &&
         program.tensor_products.empty() && program.tensor_moves.empty() &&
         std::none_of(all.begin(), all.end(), [](const MatrixForm &form) { return form.of_warpgroup; });
}

LaunchResult PlacedInstance::launch(const KernelInfo &kernel, const LaunchRequest &by,
                                    MemoryMap &memory) const {
  LaunchRequest request = by;
  const Program *program = decoded(kernel.name, form_of(request));
  if (program && defers_copies(*program, request)) {
    request.deferred = true;
    program = decoded(kernel.name, form_of(request));
  }
  if (!program) {
    LaunchResult refused;
    refused.status = LaunchStatus::illegal_instruction;
    refused.message = "kernel " + kernel.name + " cannot run: it belongs to another module";
    return refused;
  }
  std::vector<DeviceLaunch> launched;
  LaunchResult result = run(*program, request, memory, launched);
  run_launched(launched, request, memory, result);
  result.accesses = dearest(result.costs, module_->text());
  if (request.record_touched)
    for (const ptx::Text &text : module_->text().texts)
      result.text_checks.push_back(crc32(text.text));
  return result;
}

// A grid has ended when all that it launched has: one after the other, what asked to be the tail last.
void PlacedInstance::run_launched(const std::vector<DeviceLaunch> &launched, const LaunchRequest &by,
                                  MemoryMap &memory, LaunchResult &result) const {
  for (bool tail : {false, true})
    for (const DeviceLaunch &one : launched) {
      if (one.is_tail != tail || result.status != LaunchStatus::ok)
        continue;
      const Program *program = decoded(*one.kernel, form_of(by));
      const uint32_t *cluster = program->info.required_cluster;
      LaunchRequest request = by;
      request.grid = one.grid;
      request.block = one.block;
      request.cluster =
          cluster[0] ? Dim3{cluster[0], std::max(cluster[1], 1u), std::max(cluster[2], 1u)} : Dim3{};
      request.dynamic_shared_bytes = one.shared_bytes;
      request.cooperative = false;
      request.parameters = one.parameters.data();
      request.parameter_bytes = one.parameters.size();
      request.depth = by.depth + 1;
      request.prerequisite = nullptr;
      std::vector<DeviceLaunch> next;
      LaunchResult child = run(*program, request, memory, next);
      run_launched(next, request, memory, child);
      add(result.counters, child.counters);
      add(result.touched, child.touched);
      add(result.sites, child.sites);
      add(result.costs, child.costs);
      result.findings.insert(result.findings.end(), child.findings.begin(), child.findings.end());
      result.unchecked.insert(result.unchecked.end(), child.unchecked.begin(), child.unchecked.end());
      result.status = child.status;
      result.message = std::move(child.message);
    }
}

LaunchResult PlacedInstance::run(const Program &of, const LaunchRequest &request, MemoryMap &memory,
                                 std::vector<DeviceLaunch> &launched) const {
  const Program *program = &of;
  const KernelInfo &kernel = of.info;
  LaunchResult refused;
  refused.status = LaunchStatus::illegal_instruction;
  if (!kernel.unsupported.empty()) {
    refused.message = "kernel " + kernel.name + " cannot run: PTX line " +
                      std::to_string(kernel.unsupported_line) + ": " + kernel.unsupported +
                      " is not supported";
    return refused;
  }
  Launch launch;
  launch.program = program;
  launch.request = &request;
  launch.module = &module_->text();
  launch.memory = &memory;
  // Room after the last parameter, so that no read of a parameter needs a check.
  launch.parameter_bytes = program->info.parameter_bytes + 16;
  ParameterMemory parameters(launch.parameter_bytes);
  launch.parameters = parameters.data();
  if (request.parameters)
    std::memcpy(launch.parameters, request.parameters,
                std::min<size_t>(request.parameter_bytes, program->info.parameter_bytes));
  if (request.cooperative)
    launch.workspace.assign(grid_workspace_bytes, 0);
  auto more_than = [&](uint64_t present) {
    return static_cast<uint32_t>(present && request.stack_bytes > present ? request.stack_bytes - present
                                                                          : 0);
  };
  auto rounded = [&](uint32_t bytes) {
    return (bytes + program->local_alignment - 1) / program->local_alignment * program->local_alignment;
  };
  uint64_t alloca_bytes = program->local_bytes - program->frame_bytes;
  launch.frame_bytes = program->frame_bytes + rounded(more_than(program->recursion_bytes));
  launch.local_bytes =
      launch.frame_bytes + static_cast<uint32_t>(alloca_bytes) + rounded(more_than(alloca_bytes));
  uint64_t threads = uint64_t{request.block.x} * request.block.y * request.block.z;
  uint64_t shared = uint64_t{program->shared_bytes} + request.dynamic_shared_bytes;
  if (threads == 0 || threads > 1024 || shared > UINT32_MAX / 2) {
    refused.status = LaunchStatus::out_of_resources;
    refused.message = "kernel " + kernel.name + ": a block of " + std::to_string(threads) + " threads and " +
                      std::to_string(shared) + " bytes of shared memory";
    return refused;
  }
  uint64_t registers = (threads + lanes_per_warp - 1) / lanes_per_warp * program->register_bytes;
  if (registers > most_register_bytes) {
    refused.status = LaunchStatus::out_of_resources;
    refused.message =
        "kernel " + kernel.name + ": a block needs " + std::to_string(registers >> 20) + " MiB of registers";
    return refused;
  }
  launch.shared_bytes = static_cast<uint32_t>(shared);
  launch.shared_whole_bytes = (launch.shared_bytes + request.shared_unit_bytes - 1) /
                              request.shared_unit_bytes * request.shared_unit_bytes;
  launch.shared_end_bytes = request.exact_shared ? launch.shared_bytes : launch.shared_whole_bytes;
  launch.threads_per_block = static_cast<uint32_t>(threads);
  launch.warps_per_block = static_cast<uint32_t>((threads + lanes_per_warp - 1) / lanes_per_warp);
  launch.clusters = uint64_t{request.grid.x} * request.grid.y * request.grid.z / blocks_per_cluster(request);
  return run_launch(launch, launched);
}

} // namespace

// Functions without a definition that may be called: what services.hpp has, and the device runtime, whose
// absence (dynamic parallelism) is told at the launch of a kernel that needs it.
static bool is_provided(std::string_view name, bool is_function) {
  if (!is_function)
    return false;
  return name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail" ||
         name.substr(0, 4) == "cuda" || name.substr(0, 6) == "__cuda";
}

static std::unique_ptr<ptx::Module> parse_texts(std::vector<PtxText> texts, const ptx::IsProvided &provided,
                                                std::string &log, LoadProblem &problem) {
  problem = LoadProblem::none;
  std::vector<ptx::Source> sources;
  for (PtxText &text : texts)
    sources.push_back({std::move(text.name), std::move(text.text)});
  // The name of an only text says nothing.
  if (sources.size() == 1)
    sources[0].name.clear();
  try {
    return ptx::parse_module(std::move(sources), provided);
  } catch (const ptx::SyntaxError &error) {
    log = error.what();
    problem = error.is_unknown_version ? LoadProblem::unknown_version : LoadProblem::syntax;
    return nullptr;
  }
}

std::shared_ptr<const Module> Module::parse(std::vector<PtxText> texts, std::string &log,
                                            LoadProblem &problem) {
  auto names_device_runtime = [](const PtxText &text) {
    for (std::string_view name : device_runtime_names)
      if (text.text.find(name) != std::string::npos)
        return true;
    return false;
  };
  if (std::any_of(texts.begin(), texts.end(), names_device_runtime))
    texts.push_back({"the device runtime", std::string(device_runtime_text)});
  auto module = parse_texts(std::move(texts), is_provided, log, problem);
  return module ? std::make_shared<ParsedModule>(std::move(module)) : nullptr;
}

LoadProblem Module::check(PtxText text, std::string &log) {
  LoadProblem problem;
  std::vector<PtxText> texts;
  texts.push_back(std::move(text));
  parse_texts(std::move(texts), [](std::string_view, bool) { return true; }, log, problem);
  return problem;
}

std::unique_ptr<Instance> Instance::create(const std::shared_ptr<const Module> &module,
                                           const PlaceGlobal &place, std::string &log) {
  auto parsed = std::dynamic_pointer_cast<const ParsedModule>(module);
  if (!parsed) {
    log = "a module that this executor has not parsed";
    return nullptr;
  }
  auto instance = std::make_unique<PlacedInstance>(std::move(parsed));
  if (!instance->place(place, log))
    return nullptr;
  return instance;
}

} // namespace emulator
