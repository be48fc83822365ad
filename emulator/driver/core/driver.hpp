// Everything the process has: devices and the live handles. One instance, made at the first call and never
// destroyed, because programs call the driver while the process exits.
#pragma once

#include "handles.hpp"
#include "settings.hpp"

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
struct Capture;
struct Graph;
struct GraphNode;
struct GraphExecutable;
struct UserObject;
struct MemoryPool;
struct CudaArray;
struct MipmappedArray;
struct TextureObject;
struct SurfaceObject;
struct TextureReference;
struct SurfaceReference;
struct PhysicalMemory;
class Allocations;

struct Driver {
  Driver();

  std::mutex mutex;
  std::condition_variable changed; // some work has ended; waiters look again
  std::atomic<bool> initialised{false};

  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Allocations> allocations;

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
  Handles<Graph, CUgraph> graphs;
  Handles<GraphNode, CUgraphNode> graph_nodes;
  Handles<GraphExecutable, CUgraphExec> graph_executables;
  Handles<UserObject, CUuserObject> user_objects;

  std::vector<std::shared_ptr<Capture>> captures; // begun and not ended; stream/capture.cpp

  // Every stream that has work, in no particular order; kept by stream/scheduler.cpp.
  std::vector<std::shared_ptr<Stream>> busy;
  // Destroyed contexts stay as objects: threads, streams and works may still point to them.
  std::vector<std::shared_ptr<Context>> ended_contexts;
  uint64_t next_identifier = 1; // streams, contexts, buffers: unique in the process
};

Driver &driver();

// CUDA_ERROR_INVALID_DEVICE when there is no such device.
Device &device_of(CUdevice ordinal);

} // namespace emulator::driver
