// Managed memory: allocation, advice, prefetch, discard and attachment.
#include "managed.hpp"

#include "allocations.hpp"
#include "core/heap.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "stream/recorder.hpp"

#include <algorithm>

namespace emulator::driver {

void AdvisedRanges::cut(uint64_t address) {
  auto above = from_.upper_bound(address);
  from_.emplace(address, above == from_.begin() ? Advice{} : std::prev(above)->second);
}

std::vector<Advice *> AdvisedRanges::pieces(uint64_t begin, uint64_t end) {
  cut(begin);
  cut(end);
  std::vector<Advice *> result;
  for (auto piece = from_.find(begin); piece->first < end; ++piece)
    result.push_back(&piece->second);
  return result;
}

std::vector<Advice> AdvisedRanges::at(uint64_t begin, uint64_t end) const {
  std::vector<Advice> result;
  auto piece = from_.upper_bound(begin);
  result.push_back(piece == from_.begin() ? Advice{} : std::prev(piece)->second);
  for (; piece != from_.end() && piece->first < end; ++piece)
    result.push_back(piece->second);
  return result;
}

} // namespace emulator::driver

using namespace emulator::driver;

namespace {

constexpr uint64_t page_bytes = 4096; // advice applies to whole pages of the processor

struct Range {
  std::shared_ptr<Allocation> allocation;
  uint64_t begin, end; // rounded out to pages
};

Range managed_range(CUdeviceptr address, size_t bytes) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  auto allocation = allocations().find(address);
  require(allocation && allocation->kind == MemoryKind::managed && bytes <= allocation->end() - address,
          CUDA_ERROR_INVALID_VALUE);
  return {allocation, address / page_bytes * page_bytes, round_up(address + bytes, page_bytes)};
}

AdvisedRanges &advised(const Range &range) {
  if (!range.allocation->advised)
    range.allocation->advised = std::make_shared<AdvisedRanges>();
  return *range.allocation->advised;
}

Processor processor_of(const CUmemLocation &location) {
  switch (location.type) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return {location.type, device_of(location.id).ordinal};
  case CU_MEM_LOCATION_TYPE_HOST:
    return {location.type, CU_DEVICE_CPU};
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    require(location.id == 0, CUDA_ERROR_INVALID_VALUE); // CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID is the only node
    return {location.type, 0};
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    return {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

// The older functions name a device, or the processor as CU_DEVICE_CPU.
CUmemLocation location_of(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

void advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, const CUmemLocation &location) {
  Range range = managed_range(address, bytes);
  Processor processor;
  bool wants_processor = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                         advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  require(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY,
          CUDA_ERROR_INVALID_VALUE);
  if (wants_processor)
    processor = processor_of(location);
  bool by = advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  // Documented: a device or the host, no other place.
  require(!by || processor.type != CU_MEM_LOCATION_TYPE_HOST_NUMA, CUDA_ERROR_INVALID_VALUE);
  for (Advice *piece : advised(range).pieces(range.begin, range.end)) {
    bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
    if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
      piece->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
    else if (!by)
      piece->preferred = processor; // none for UNSET
    else if (processor.type == CU_MEM_LOCATION_TYPE_HOST)
      piece->accessed_by_host = set;
    else if (set)
      piece->accessed_by_devices |= 1u << processor.id;
    else
      piece->accessed_by_devices &= ~(1u << processor.id);
  }
}

void prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation &location) {
  Range range = managed_range(address, bytes);
  Processor processor = processor_of(location);
  for (Advice *piece : advised(range).pieces(range.begin, range.end))
    piece->prefetched = processor;
}

// The one that all pieces share, or none.
Processor common(const std::vector<Advice> &pieces, Processor Advice::*which) {
  for (const auto &piece : pieces)
    if (!(piece.*which == pieces.front().*which))
      return {};
  return pieces.front().*which;
}

// The older attributes know devices and CU_DEVICE_CPU only.
int device_number(const Processor &processor) {
  return processor.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? CU_DEVICE_CPU : processor.id;
}

void get_attribute(void *data, size_t bytes, CUmem_range_attribute attribute, const Range &range) {
  require(data != nullptr && bytes > 0 && bytes % sizeof(int) == 0, CUDA_ERROR_INVALID_VALUE);
  auto *values = static_cast<int *>(data);
  size_t count = bytes / sizeof(int);
  auto pieces = advised(range).at(range.begin, range.end);
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
    uint32_t devices = ~0u;
    bool host = true;
    for (const auto &piece : pieces) {
      devices &= piece.accessed_by_devices;
      host = host && piece.accessed_by_host;
    }
    std::fill_n(values, count, int{CU_DEVICE_INVALID});
    size_t next = 0;
    for (int ordinal = 0; ordinal < 32 && next < count; ++ordinal)
      if (devices >> ordinal & 1u)
        values[next++] = ordinal;
    if (host && next < count)
      values[next] = CU_DEVICE_CPU;
    return;
  }
  require(count == 1, CUDA_ERROR_INVALID_VALUE);
  switch (static_cast<int>(attribute)) {
  case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
    values[0] = std::all_of(pieces.begin(), pieces.end(), [](const Advice &a) { return a.read_mostly; });
    return;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    values[0] = device_number(common(pieces, &Advice::preferred));
    return;
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    values[0] = device_number(common(pieces, &Advice::prefetched));
    return;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    values[0] = common(pieces, &Advice::preferred).type;
    return;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
    values[0] = common(pieces, &Advice::preferred).id;
    return;
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
    values[0] = common(pieces, &Advice::prefetched).type;
    return;
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
    values[0] = common(pieces, &Advice::prefetched).id;
    return;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

} // namespace

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
  return enter("cuMemAllocManaged", Needs::healthy, [&](Call &call) {
    require(dptr != nullptr && bytesize > 0, CUDA_ERROR_INVALID_VALUE);
    require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
    *dptr = allocate_device(*call.context, bytesize, MemoryKind::managed, flags)->base;
  });
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return enter("cuMemAdvise", Needs::healthy,
               [&](Call &) { advise(devPtr, count, advice, location_of(device)); });
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                CUmemLocation location) {
  return enter("cuMemAdvise_v2", Needs::healthy, [&](Call &) { advise(devPtr, count, advice, location); });
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
  return enter("cuMemPrefetchAsync", Needs::healthy, hStream, [&](Call &call) {
    refuse_recorded(*stream_of(*call.context, hStream));
    prefetch(devPtr, count, location_of(dstDevice));
  });
}

CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                       unsigned int flags, CUstream hStream) {
  return enter("cuMemPrefetchAsync_v2", Needs::healthy, [&](Call &call) {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    refuse_recorded(*stream_of(*call.context, hStream));
    prefetch(devPtr, count, location);
  });
}

// Discarded contents are indeterminate: with REPLAY_EMULATOR_POISON they are overwritten, in stream order.
static void discard(Call &call, CUstream handle, const CUdeviceptr *pointers, const size_t *sizes,
                    size_t count, unsigned long long flags) {
  require(pointers && sizes && count > 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
  auto stream = stream_of(*call.context, handle);
  require(!stream->legacy, CUDA_ERROR_INVALID_VALUE); // documented
  std::vector<std::pair<CUdeviceptr, size_t>> ranges;
  for (size_t i = 0; i < count; ++i) {
    managed_range(pointers[i], sizes[i]);
    ranges.emplace_back(pointers[i], sizes[i]);
  }
  if (!settings().poison)
    return;
  issue(call.lock, stream, [ranges = std::move(ranges)]() -> Outcome {
    for (auto [address, bytes] : ranges) {
      if (!allocations().covers(address, bytes))
        return {CUDA_ERROR_ILLEGAL_ADDRESS, 0};
      std::fill_n(reinterpret_cast<uint8_t *>(address), bytes, uint8_t{0xCD});
    }
    return {};
  });
}

static void prefetch_batch(Call &call, CUstream handle, const CUdeviceptr *pointers, const size_t *sizes,
                           size_t count, const CUmemLocation *locations, const size_t *starts,
                           size_t location_count, unsigned long long flags) {
  require(pointers && sizes && count > 0 && flags == 0 && locations && starts && location_count > 0 &&
              location_count <= count && starts[0] == 0,
          CUDA_ERROR_INVALID_VALUE);
  require(!stream_of(*call.context, handle)->legacy, CUDA_ERROR_INVALID_VALUE); // documented
  for (size_t i = 1; i < location_count; ++i)
    require(starts[i] > starts[i - 1] && starts[i] < count, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < count; ++i)
    managed_range(pointers[i], sizes[i]);
  for (size_t i = 0; i < location_count; ++i)
    processor_of(locations[i]);
  for (size_t i = 0, row = 0; i < count; ++i) {
    while (row + 1 < location_count && starts[row + 1] <= i)
      ++row;
    prefetch(pointers[i], sizes[i], locations[row]);
  }
}

CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                         CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                         size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  return enter("cuMemPrefetchBatchAsync", Needs::healthy, [&](Call &call) {
    prefetch_batch(call, hStream, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags);
  });
}

CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                        unsigned long long flags, CUstream hStream) {
  return enter("cuMemDiscardBatchAsync", Needs::healthy,
               [&](Call &call) { discard(call, hStream, dptrs, sizes, count, flags); });
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                                   CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                                   size_t numPrefetchLocs, unsigned long long flags,
                                                   CUstream hStream) {
  return enter("cuMemDiscardAndPrefetchBatchAsync", Needs::healthy, [&](Call &call) {
    prefetch_batch(call, hStream, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags);
    discard(call, hStream, dptrs, sizes, count, flags);
  });
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                        unsigned int flags) {
  return enter("cuStreamAttachMemAsync", Needs::healthy, hStream, [&](Call &call) {
    require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
            CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    refuse_recorded(*stream);
    Range range = managed_range(dptr, std::max<size_t>(length, 1));
    // Documented: the whole allocation, said as 0 or as its size.
    require(dptr == range.allocation->base && (length == 0 || length == range.allocation->bytes),
            CUDA_ERROR_INVALID_VALUE);
    // Documented: not to the null stream, which has no work of its own.
    require(flags != CU_MEM_ATTACH_SINGLE || !stream->legacy, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                        CUdeviceptr devPtr, size_t count) {
  return enter("cuMemRangeGetAttribute", Needs::healthy,
               [&](Call &) { get_attribute(data, dataSize, attribute, managed_range(devPtr, count)); });
}

CUresult CUDAAPI cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                         size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  return enter("cuMemRangeGetAttributes", Needs::healthy, [&](Call &) {
    require(data && dataSizes && attributes && numAttributes > 0, CUDA_ERROR_INVALID_VALUE);
    Range range = managed_range(devPtr, count);
    for (size_t i = 0; i < numAttributes; ++i)
      get_attribute(data[i], dataSizes[i], attributes[i], range);
  });
}
