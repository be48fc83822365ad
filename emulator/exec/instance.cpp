// Module and Instance of program.hpp: a parsed text, and one whose globals have been given places.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "exec/decode/decode.hpp"
#include "exec/machine/cluster.hpp"
#include "exec/machine/services.hpp"
#include "exec/program.hpp"

namespace emulator {

namespace {

class ParsedModule final : public Module {
public:
  explicit ParsedModule(std::unique_ptr<ptx::Module> text) : text_(std::move(text)) {
    for (const ptx::Variable &v : text_->variables)
      if (v.space == ptx::Space::global || v.space == ptx::Space::constant)
        globals_.push_back({std::string(v.name), v.size_bytes, v.alignment_bytes,
                            v.space == ptx::Space::constant, v.is_managed});
    for (const ptx::Function &f : text_->functions)
      if (f.is_entry && !f.is_extern)
        kernels_.push_back(std::string(f.name));
  }
  const std::vector<GlobalInfo> &globals() const override { return globals_; }
  const std::vector<std::string> &kernel_names() const override { return kernels_; }
  const ptx::Module &text() const { return *text_; }

private:
  std::unique_ptr<ptx::Module> text_;
  std::vector<GlobalInfo> globals_;
  std::vector<std::string> kernels_;
};

class PlacedInstance final : public Instance {
public:
  explicit PlacedInstance(std::shared_ptr<const ParsedModule> module) : module_(std::move(module)) {}

  const Module &module() const override { return *module_; }

  uint64_t global_address(std::string_view name) const override {
    auto found = module_->text().variable_by_name.find(name);
    return found == module_->text().variable_by_name.end() ? 0 : address_of(*found->second);
  }

  const KernelInfo *kernel(std::string_view name) const override {
    const Program *program = decoded(name);
    return program ? &program->info : nullptr;
  }

  LaunchResult launch(const KernelInfo &kernel, const LaunchRequest &request,
                      MemoryMap &memory) const override;

  bool place(const PlaceGlobal &place_global, std::string &log) {
    size_t next = 0;
    for (const ptx::Variable &v : module_->text().variables) {
      if (v.space != ptx::Space::global && v.space != ptx::Space::constant)
        continue;
      const GlobalInfo &info = module_->globals()[next++];
      if (v.is_extern) {
        log = "unresolved: the variable " + info.name + " is declared .extern and defined nowhere";
        return false;
      }
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
        if (!symbol_address(a.symbol, value)) {
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

  bool symbol_address(std::string_view name, uint64_t &value) const {
    const ptx::Module &text = module_->text();
    auto variable = text.variable_by_name.find(name);
    if (variable != text.variable_by_name.end())
      return (value = address_of(*variable->second)) != 0;
    auto function = text.function_by_name.find(name);
    if (function == text.function_by_name.end())
      return false;
    for (size_t f = 0; f < text.functions.size(); ++f)
      if (&text.functions[f] == function->second)
        value = first_function_address + f * function_address_step;
    return true;
  }

  const Program *decoded(std::string_view name) const {
    auto found = module_->text().function_by_name.find(name);
    if (found == module_->text().function_by_name.end() || !found->second->is_entry ||
        found->second->is_extern)
      return nullptr;
    std::lock_guard<std::mutex> hold(lock_);
    std::unique_ptr<Program> &program = programs_[found->second];
    if (!program)
      program = decode_kernel(module_->text(), *found->second,
                              [this](const ptx::Variable &v) { return address_of(v); });
    return program.get();
  }

  std::shared_ptr<const ParsedModule> module_;
  std::map<const ptx::Variable *, uint64_t> addresses_;
  mutable std::mutex lock_;
  mutable std::map<const ptx::Function *, std::unique_ptr<Program>> programs_;
};

constexpr size_t grid_workspace_bytes = 4096;
constexpr uint64_t most_register_bytes = uint64_t{1} << 31;

LaunchResult PlacedInstance::launch(const KernelInfo &kernel, const LaunchRequest &request,
                                    MemoryMap &memory) const {
  const Program *program = decoded(kernel.name);
  LaunchResult refused;
  refused.status = LaunchStatus::illegal_instruction;
  if (!program || !program->info.unsupported.empty()) {
    refused.message = "kernel " + kernel.name + " cannot run: " +
                      (program ? "PTX line " + std::to_string(program->info.unsupported_line) + ": " +
                                     program->info.unsupported + " is not supported"
                               : "it belongs to another module");
    return refused;
  }
  Launch launch;
  launch.program = program;
  launch.request = &request;
  launch.module = &module_->text();
  launch.memory = &memory;
  // Room behind the last parameter, so that no read of a parameter needs a check.
  launch.parameters.assign(program->info.parameter_bytes + 16, 0);
  if (request.parameters)
    std::memcpy(launch.parameters.data(), request.parameters,
                std::min<size_t>(request.parameter_bytes, program->info.parameter_bytes));
  if (request.cooperative)
    launch.workspace.assign(grid_workspace_bytes, 0);
  uint64_t threads = uint64_t{request.block.x} * request.block.y * request.block.z;
  uint64_t shared = uint64_t{program->shared_bytes} + request.dynamic_shared_bytes;
  if (threads == 0 || threads > 1024 || shared > UINT32_MAX) {
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
  launch.threads_per_block = static_cast<uint32_t>(threads);
  launch.warps_per_block = static_cast<uint32_t>((threads + lanes_per_warp - 1) / lanes_per_warp);
  launch.clusters = uint64_t{request.grid.x} * request.grid.y * request.grid.z / blocks_per_cluster(request);
  return run_launch(launch);
}

} // namespace

std::shared_ptr<const Module> Module::parse(std::string_view ptx, std::string &log) {
  try {
    return std::make_shared<ParsedModule>(ptx::parse_module(ptx));
  } catch (const ptx::SyntaxError &error) {
    log = error.what();
    return nullptr;
  }
}

std::unique_ptr<Instance> Instance::create(std::shared_ptr<const Module> module, const PlaceGlobal &place,
                                           std::string &log) {
  auto parsed = std::dynamic_pointer_cast<const ParsedModule>(std::move(module));
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
