#include "device_memory.hpp"

#include "array/texture.hpp"
#include "device/context.hpp"
#include "device/device.hpp"
#include "exec/interface/global_shadow.hpp"
#include "memory/described.hpp"
#include "module/reference.hpp"

#include <algorithm>
#include <cstdio>
#include <sys/mman.h>

namespace emulator::driver {
namespace {

constexpr uint64_t default_device_heap_bytes = uint64_t{8} << 20; // CU_LIMIT_MALLOC_HEAP_SIZE's default
constexpr uint64_t far_bytes = uint64_t{1} << 30; // beyond this, naming a neighbour says nothing
constexpr uint64_t near_bytes = uint64_t{64}
                                << 10; // up to this, a neighbour is more likely meant than the host

} // namespace

std::shared_ptr<MemoryMap> device_memory(Context &context) {
  if (!context.memory)
    context.memory = std::make_shared<DeviceMemory>(context);
  return context.memory;
}

// What lies around the allocations of the device's own memory, where such accesses pass.
Range DeviceMemory::find_around(uint64_t address) const {
  auto [below, above] = allocations().neighbours(address);
  for (const Stretch &stretch : {below, above})
    if (auto neighbour = allocations().find(stretch.base); neighbour && neighbour->pages_base <= address &&
                                                           address < neighbour->pages_end &&
                                                           may_touch(context_, *neighbour, true))
      return {neighbour->pages_base, neighbour->pages_end, true, is_followed(*neighbour)};
  return {};
}

Range DeviceMemory::find(uint64_t address) const {
  if (settings().lenient)
    if (Range around = find_around(address); around.end != 0)
      return around;
  auto allocation = allocations().find(address);
  if (!allocation || !may_touch(context_, *allocation, false))
    return {};
  Stretch here =
      settings().lenient ? Stretch{allocation->base, allocation->bytes} : allocations().for_kernels(address);
  return {here.base, here.base + here.bytes, may_touch(context_, *allocation, true),
          is_followed(*allocation)};
}

std::string DeviceMemory::describe(uint64_t address) const {
  auto [below, above] = allocations().neighbours(address);
  if (below.bytes != 0 && address - below.base < below.bytes) {
    auto allocation = allocations().find(address);
    bool allowed = allocation && may_touch(context_, *allocation, false);
    return "inside " + named(below) + (allowed ? "" : ", which this device may not touch");
  }
  if (address == 0)
    return "a null pointer";
  if (auto [base, bytes] = allocations().freed_at(address); bytes != 0)
    return grouped(address - base) + " bytes into " + named({base, bytes}) + ", which was freed";
  uint64_t after = below.bytes != 0 ? address - below.base - below.bytes : ~uint64_t{0};
  uint64_t before = above.bytes != 0 ? above.base - address : ~uint64_t{0};
  const Stretch &nearest = after <= before ? below : above;
  auto allocation = allocations().find(nearest.base);
  bool is_beside = allocations().find(address) != nullptr; // a part of memory that is confined
  bool on_its_pages =
      is_beside || (allocation && allocation->pages_base <= address && address < allocation->pages_end);
  if (std::min(after, before) > near_bytes && !on_its_pages && is_mapped(address, 1))
    return "memory of the host that no device can reach (cuMemHostRegister, or a copy)";
  if (std::min(after, before) > far_bytes)
    return "far from every allocation";
  std::string words = after <= before ? grouped(after) + " bytes past the end of " + named(nearest)
                                      : grouped(before) + " bytes before " + named(nearest);
  if (is_beside ||
      (allocation && allocation->pages_end != 0 && address + block_bytes >= allocation->pages_base &&
       address < allocation->pages_end + block_bytes))
    words += "; REPLAY_EMULATOR_LENIENT=1 lets it pass, as a GPU does where its pages reach";
  return words;
}

uint64_t DeviceMemory::device_malloc(uint64_t bytes) {
  std::lock_guard<std::mutex> guard(heap_mutex_);
  auto limit = context_.limits.find(CU_LIMIT_MALLOC_HEAP_SIZE);
  uint64_t capacity = limit == context_.limits.end() ? default_device_heap_bytes : limit->second;
  if (bytes == 0 || bytes > capacity || heap_bytes_ + bytes > capacity)
    return 0;
  // Each piece is a mapping of its own: rare, and an overrun is seen at once.
  uint64_t mapped = round_up(bytes + allocation_alignment, 4096);
  uint64_t base = map_aligned(mapped, 4096, PROT_READ | PROT_WRITE);
  if (base == 0)
    return 0;
  auto allocation = std::make_shared<Allocation>();
  allocation->base = base;
  allocation->bytes = bytes;
  allocation->kind = MemoryKind::heap;
  allocation->device = &context_.device;
  allocation->context = &context_;
  allocation->footprint = mapped;
  allocation->identifier = ~uint64_t{0}; // not a buffer the host can ask about
  allocations().insert(allocation);
  global_shadow().begin(base, bytes);
  heap_bytes_ += bytes;
  return base;
}

void DeviceMemory::device_free(uint64_t address) {
  std::lock_guard<std::mutex> guard(heap_mutex_);
  auto allocation = allocations().find(address);
  if (!allocation || allocation->base != address || allocation->kind != MemoryKind::heap)
    return;
  // The range leaves the table; its pages stay until the context ends, because executor threads cache ranges.
  heap_bytes_ -= allocation->bytes;
  allocations().erase(address);
  freed_.push_back(std::move(allocation));
}

DeviceMemory::~DeviceMemory() {
  for (const auto &piece : freed_)
    munmap(reinterpret_cast<void *>(piece->base), piece->footprint);
}

std::shared_ptr<const Texture> DeviceMemory::texture(uint64_t handle, std::string &problem) const {
  Lock lock(driver().mutex);
  if (auto object = driver().texture_objects.find(static_cast<CUtexObject>(handle))) {
    if (object->context == &context_)
      return sampled(*object, problem);
    problem = "a texture object of another context";
    return nullptr;
  }
  if (auto reference = texture_reference_at(context_, handle))
    return reference->sampled(problem);
  if (allocations().find(handle)) {
    problem = "memory, or a texture reference that nothing is bound to";
    return nullptr;
  }
  problem = driver().surface_objects.find(static_cast<CUsurfObject>(handle))
                ? "a surface object, not a texture object"
                : "no texture object has it, or one that was destroyed";
  return nullptr;
}

std::shared_ptr<const Surface> DeviceMemory::surface(uint64_t handle, std::string &problem) const {
  Lock lock(driver().mutex);
  if (auto object = driver().surface_objects.find(static_cast<CUsurfObject>(handle))) {
    if (object->context == &context_)
      return accessed(object->resource, problem);
    problem = "a surface object of another context";
    return nullptr;
  }
  if (auto reference = surface_reference_at(context_, handle))
    return reference->accessed(problem);
  if (allocations().find(handle)) {
    problem = "memory, or a surface reference that nothing is bound to";
    return nullptr;
  }
  problem = driver().texture_objects.find(static_cast<CUtexObject>(handle))
                ? "a texture object, not a surface object"
                : "no surface object has it, or one that was destroyed";
  return nullptr;
}

} // namespace emulator::driver
