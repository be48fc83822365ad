// What a generated main.cpp is written in: memory at the addresses of the captured application, files, checks, times.
//
// Order: hold every address, then load the driver; place memory; set up; load contents; run the window once and compare
// what it left; then, for times, restore what it writes, flush the L2 cache, and run it between two events.
// Exit status: 0 outputs match, or the application's error was reproduced; 1 they differ, it was not, or nothing is
// compared; 3 something could not be done.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#ifndef EXPORT_FOLDER
#define EXPORT_FOLDER "."
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static const size_t granule = 2u << 20;
static const int most_tries = 16;
static int compared, different;
static size_t compared_bytes;
static volatile uint32_t *gate;  // 0: work in the held stream waits

[[noreturn]] static void fail(const std::string &what) {
  if (gate) *gate = 1;  // a device that waits for ever would keep this process
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(3);
}

// The driver is loaded when it is first called, after the captured addresses were reserved, and is not needed
// to build. LD_LIBRARY_PATH chooses another one.
[[maybe_unused]] static void *driver_function(const char *name) {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) fail(std::string("the driver cannot be loaded: ") + dlerror());
  void *const function = dlsym(library, name);
  if (!function) fail(std::string("this driver has no ") + name);
  return function;
}
#define NAME_(name) #name
#define NAME(name) NAME_(name)  // after the #defines of cuda.h: cuMemAlloc is cuMemAlloc_v2
#define DRIVER(name) ([] { static const auto known = (decltype(&name))driver_function(NAME(name)); return known; }())

// The error in which the window ended in the application, while the window runs; 0 for none, -1
// where that is not known.
static int expected_error;
static const char *expected_at = "";

[[noreturn]] static void end_in_error(const char *name, const std::string &call) {
  std::printf("FAULT reproduced: the window ends in %s, as in the application (there at %s, here at %s)\n", name, expected_at, call.c_str());
  std::fflush(nullptr);
  _exit(0);
}

// The function of a call as the source has it: "cuMemAlloc" of "DRIVER(cuMemAlloc)(&p, 4)".
static std::string called(const std::string &call) {
  const size_t begin = call.rfind("DRIVER(", 0) == 0 ? 7 : 0;
  return call.substr(begin, call.find_first_of("()", begin) - begin);
}

[[maybe_unused]] static void check_result(CUresult result, const char *call, int line) {
  if (result == CUDA_SUCCESS) return;
  const char *name = nullptr;
  DRIVER(cuGetErrorName)(result, &name);
  if (expected_error < 0 || (expected_error && result == (CUresult)expected_error))
    end_in_error(name ? name : "an error", called(call));
  fail(called(call) + " in line " + std::to_string(line) + " returned " + (name ? name : std::to_string(result)));
}
#define CHECK(call) check_result((call), #call, __LINE__)

// For each context of the application: the device that stands for its own, and the context that stands for it.
static std::vector<CUdevice> devices;
static std::vector<CUcontext> contexts;

// Waits for all of them.
[[maybe_unused]] static void idle() {
  CUcontext current = nullptr;
  CHECK(DRIVER(cuCtxGetCurrent)(&current));
  for (CUcontext context : contexts) {
    if (contexts.size() > 1) CHECK(DRIVER(cuCtxSetCurrent)(context));
    CHECK(DRIVER(cuCtxSynchronize)());
  }
  if (contexts.size() > 1) CHECK(DRIVER(cuCtxSetCurrent)(current));
}

// Memory of this program.
struct Memory {
  unsigned char *data = nullptr;
  size_t size = 0;
  void *at(std::ptrdiff_t offset) const { return data + offset; }
};

// A pointer for whatever a function takes.
struct Any {
  void *pointer;
  template <class T> operator T *() const { return (T *)pointer; }
};

template <class T> [[maybe_unused]] static uint64_t word(T value) { return (uint64_t)value; }

template <class T> [[maybe_unused]] static void put(const Memory &block, size_t offset, T value) {
  const uint64_t bits = word(value);
  std::memcpy(block.data + offset, &bits, sizeof bits);
}

[[maybe_unused]] static Memory room(size_t size) { return {(unsigned char *)std::calloc(size ? size : 1, 1), size}; }

[[maybe_unused]] static Memory bytes(const unsigned char *source, size_t size) {
  Memory made = room(size + 1);
  std::memcpy(made.data, source, size);
  made.size = size;
  return made;
}

[[maybe_unused]] static std::string folder() {
  const char *named = std::getenv("EXPORT_FOLDER");
  return named ? named : EXPORT_FOLDER;
}

// One more byte than the file has, which is zero: PTX ends with it.
[[maybe_unused]] static Memory read_file(const char *name, size_t size) {
  const std::string path = folder() + "/" + name;
  Memory made = room(size + 1);
  made.size = size;
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file || !made.data || std::fread(made.data, 1, size, file) != size)
    fail(path + " cannot be read; EXPORT_FOLDER names the folder with the data files");
  std::fclose(file);
  return made;
}

// A module image, however long it is: the file may be another one than was captured. A zero follows it.
[[maybe_unused]] static Memory read_image(const char *name) {
  std::FILE *file = std::fopen((folder() + "/" + name).c_str(), "rb");
  const long size = file && std::fseek(file, 0, SEEK_END) == 0 ? std::ftell(file) : 0;
  if (file) std::fclose(file);
  return read_file(name, size > 0 ? (size_t)size : 1);
}

