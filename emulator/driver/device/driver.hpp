// What the process has: devices, and the live handles of what belongs to them. One instance, made at the
// first call and never destroyed, because programs call the driver while the process exits. The kinds of
// handles are defined in the layers above, which also say what is done with them.
#pragma once

#include "core/handles.hpp"
#include "core/settings.hpp"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <vector>

namespace emulator::driver {

struct Device;
struct Context;
struct Stream;
struct Event;
struct LoadedModule;
struct Function;
struct Library;
struct Kernel;
struct Linker;
struct Work;
struct MemoryPool;
struct CudaArray;
struct MipmappedArray;
struct TextureObject;
struct SurfaceObject;
struct TextureReference;
struct SurfaceReference;
struct PhysicalMemory;

using Lock = std::unique_lock<std::mutex>;

struct Driver {
  Driver();

  std::mutex mutex;
  std::condition_variable changed; // some work has ended; waiters look again
  std::atomic<bool> initialised{false};
  std::atomic<bool> without_device{false}; // cuInit said so

  std::vector<std::unique_ptr<Device>> devices;

  Handles<Context, CUcontext> contexts;
  Handles<Stream, CUstream> streams;
  Handles<Event, CUevent> events;
  Handles<LoadedModule, CUmodule> modules;
  Handles<Function, CUfunction> functions;
  Handles<Library, CUlibrary> libraries;
  Handles<Kernel, CUkernel> kernels;
  Handles<Linker, CUlinkState> linkers;
  Handles<MemoryPool, CUmemoryPool> pools;
  Handles<PhysicalMemory, CUmemGenericAllocationHandle> physical;
  Handles<CudaArray, CUarray> arrays;
  Handles<MipmappedArray, CUmipmappedArray> mipmapped_arrays;
  NumberedHandles<TextureObject, CUtexObject> texture_objects;
  NumberedHandles<SurfaceObject, CUsurfObject> surface_objects;
  Handles<TextureReference, CUtexref> texture_references;
  Handles<SurfaceReference, CUsurfref> surface_references;

  // In no particular order: every stream that has work, and every one that is recorded (stream/recorder.hpp).
  std::vector<std::shared_ptr<Stream>> busy, recorded;
  // Throws for functions that must not be called now; null as long as there are none.
  void (*refuse_call)(const char *function) = nullptr;
  // Destroyed contexts stay as objects: threads, streams and works may still point to them.
  std::vector<std::shared_ptr<Context>> ended_contexts;
  uint64_t next_identifier = 1; // streams, contexts, buffers: unique in the process
};

Driver &driver();

// CUDA_ERROR_INVALID_DEVICE when there is no such device.
Device &device_of(CUdevice ordinal);

} // namespace emulator::driver
