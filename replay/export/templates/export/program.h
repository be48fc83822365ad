// -- checks -------------------------------------------------------------------------------------------------------------

[[maybe_unused]] static void judge(const unsigned char *expected, const unsigned char *found, size_t size, const char *label) {
  compared++;
  compared_bytes += size;
  size_t count = 0, first = 0;
  for (size_t i = 0; i < size; i++)
    if (expected[i] != found[i] && count++ == 0) first = i;
  if (!count) return;
  different++;
  std::printf("%s: %zu of %zu bytes differ, the first at offset %zu: expected %02x, got %02x\n", label, count, size, first,
              expected[first], found[first]);
}

[[maybe_unused]] static void compare(uint64_t target, const Memory &contents, bool host, const char *label,
                    const std::vector<std::pair<size_t, uint64_t>> &words) {
  std::vector<unsigned char> expected(contents.data, contents.data + contents.size), found(contents.size);
  idle();
  if (host)
    std::memcpy(found.data(), (void *)target, found.size());
  else
    CHECK(DRIVER(cuMemcpyDtoH)(found.data(), target, found.size()));
  // A pointer to a variable of a module, where nothing else was written over it.
  for (const auto &item : words)
    if (item.first + 8 <= found.size() && std::memcmp(&found[item.first], &item.second, 8) == 0)
      std::memcpy(&expected[item.first], &item.second, 8);
  judge(expected.data(), found.data(), found.size(), label);
}

[[maybe_unused]] static void compare_block(const Memory &room, const Memory &expected, const char *label) {
  judge(expected.data, room.data, std::min(room.size, expected.size), label);
}

[[maybe_unused]] static void compare_block(uint64_t address, const Memory &expected, const char *label) {
  judge(expected.data, (const unsigned char *)address, expected.size, label);
}

// -- the program --------------------------------------------------------------------------------------------------------

struct Program {
  void (*prepare)();
  void (*places)();
  void (*set_up)(bool), (*load_all)(bool), (*restore)(bool), (*window)(bool), (*compare_all)(bool), (*clean_up)(bool);
  CUstream *main_stream;  // nullptr: the window makes its streams itself
  std::vector<CUstream> (*other_streams)();
  const char *hold_reason;  // why the stream is not held while the window is queued; "" where it is
  std::vector<int> captured;  // ordinals of the application's devices, one for each context
  void (*take_contexts)();
  int error = 0;  // CUresult in which the window ended in the application, and at which call
  const char *error_call = "";
};

// Device i of the application is device i here where there are so many; else all of them are one device, each with a
// context of its own. A device that is in the list again has another context.
[[maybe_unused]] static void open_devices(const Program &program, const char *asked) {
  int count = 0;
  CHECK(DRIVER(cuDeviceGetCount)(&count));
  const std::vector<int> &captured = program.captured;
  const auto ends = std::minmax_element(captured.begin(), captured.end());
  const bool several = *ends.first != *ends.second, spread = several && !asked && *ends.second < count;
  for (size_t i = 0; i < captured.size(); i++) {
    CUdevice device;
    CUcontext context = nullptr;
    CHECK(DRIVER(cuDeviceGet)(&device, spread ? captured[i] : asked ? std::atoi(asked) : 0));
    if (i == 0 || (spread && std::find(captured.begin(), captured.begin() + i, captured[i]) == captured.begin() + i))
      CHECK(DRIVER(cuDevicePrimaryCtxRetain)(&context, device));
    else
#if CUDA_VERSION >= 13000
      CHECK(DRIVER(cuCtxCreate)(&context, nullptr, 0, device));
#else
      CHECK(DRIVER(cuCtxCreate)(&context, 0, device));
#endif
    devices.push_back(device);
    contexts.push_back(context);
  }
  CHECK(DRIVER(cuCtxSetCurrent)(contexts[0]));
  if (several && !spread) std::printf("all devices of the application are one device here\n");
  program.take_contexts();
}

[[maybe_unused]] static void print_times(const char *what, std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  std::printf("%s: median %.3f us, min %.3f us, max %.3f us, n %zu\n", what, times_us[times_us.size() / 2], times_us.front(),
              times_us.back(), times_us.size());
}

// So that the time in which the host queues the window does not count, its stream waits until all of it is queued.
// Returns why that is not done, "" where it is.
[[maybe_unused]] static std::string prepare_hold(const Program &program, bool modelled, CUdeviceptr *flag) {
  const char *asked = std::getenv("EXPORT_HOLD");
  if (asked && std::strcmp(asked, "0") == 0) return "EXPORT_HOLD=0";
  if (*program.hold_reason) return program.hold_reason;
  if (told_inside) return "the driver is told inside the window where allocations end";
  if (modelled && !asked) return "the modelled clock does not run while the host works";
  void *memory = nullptr;
  if (DRIVER(cuMemHostAlloc)(&memory, sizeof *gate, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
    return "no memory for the flag";
  *(volatile uint32_t *)memory = 1;
  if (DRIVER(cuMemHostGetDevicePointer)(flag, memory, 0) != CUDA_SUCCESS ||
      DRIVER(cuStreamWaitValue32)(*program.main_stream, *flag, 1, CU_STREAM_WAIT_VALUE_EQ) != CUDA_SUCCESS)
    return "the driver cannot hold a stream";
  idle();
  gate = (volatile uint32_t *)memory;
  return "";
}

[[maybe_unused]] static void time_window(const Program &program, int samples, CUdevice device, bool modelled) {
  int l2_bytes = 0;
  CHECK(DRIVER(cuDeviceGetAttribute)(&l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device));
  const size_t flush_bytes = 2 * (size_t)l2_bytes;
  CUdeviceptr flush = 0;
  if (flush_bytes) CHECK(DRIVER(cuMemAlloc)(&flush, flush_bytes));
  const std::vector<CUstream> others = program.other_streams();
  CUevent begin, end, join;
  CHECK(DRIVER(cuEventCreate)(&begin, CU_EVENT_DEFAULT));
  CHECK(DRIVER(cuEventCreate)(&end, CU_EVENT_DEFAULT));
  CHECK(DRIVER(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr flag = 0;
  const std::string not_held = program.main_stream ? prepare_hold(program, modelled, &flag) : program.hold_reason;
  std::vector<double> gpu_us, host_us;
  for (int i = 0; i < samples; i++) {
    program.restore(false);
    if (flush) CHECK(DRIVER(cuMemsetD8)(flush, 0, flush_bytes));
    idle();
    const auto start = std::chrono::steady_clock::now();
    if (gate) {
      *gate = 0;
      CHECK(DRIVER(cuStreamWaitValue32)(*program.main_stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    if (program.main_stream) {
      CHECK(DRIVER(cuEventRecord)(begin, *program.main_stream));
      for (CUstream other : others) CHECK(DRIVER(cuStreamWaitEvent)(other, begin, 0));
    }
    program.window(false);
    if (program.main_stream) {
      for (CUstream other : others) {
        CHECK(DRIVER(cuEventRecord)(join, other));
        CHECK(DRIVER(cuStreamWaitEvent)(*program.main_stream, join, 0));
      }
      CHECK(DRIVER(cuEventRecord)(end, *program.main_stream));
    }
    if (gate) *gate = 1;
    idle();
    host_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    if (program.main_stream) {
      float ms = 0;
      CHECK(DRIVER(cuEventElapsedTime)(&ms, begin, end));
      gpu_us.push_back(1000.0 * ms);
    }
    if (i + 1 < samples) program.clean_up(false);
  }
  if (!gpu_us.empty()) print_times(modelled ? "GPU time of the window, modelled" : "GPU time of the window", gpu_us);
  print_times(modelled ? "host time of the window on the CPU driver" : "host time of the window", host_us);
  std::printf(not_held.empty() ? "the stream was held while the window was queued%s\n" : "the stream was not held: %s\n",
              not_held.c_str());
}

[[maybe_unused]] static int run(const Program &program, int argc, char **argv) {
  const int samples = argc > 1 ? std::atoi(argv[1]) : 20;
  program.places();
  hold_all(argv);
  program.prepare();
  CHECK(DRIVER(cuInit)(0));
  const char *ordinal = std::getenv("EXPORT_DEVICE");
  open_devices(program, ordinal);
  const CUdevice device = devices[0];
  char name[256] = "";
  CHECK(DRIVER(cuDeviceGetName)(name, sizeof name, device));
  const bool modelled = std::strncmp(name, "Emulated", 8) == 0;
  back_all();
  program.set_up(false);
  program.load_all(false);
  idle();
  expected_error = program.error;
  expected_at = program.error_call;
  in_window = true;
  program.window(true);
  in_window = false;
  idle();
  if (program.error) {
    std::printf("%s: FAULT NOT REPRODUCED: the window ends without an error; in the application it ended in error %d at %s\n", name,
                program.error, program.error_call);
    std::fflush(nullptr);
    _exit(1);
  }
  program.compare_all(true);
  std::printf("%s: outputs %s (%d compared, %zu bytes)\n", name,
              different ? "DIFFER" : compared ? "match" : "were not captured, nothing is compared", compared, compared_bytes);
  if (samples > 0 && compared) { // a time of what nobody knows to be right says nothing
    program.clean_up(false);
    time_window(program, samples, device, modelled);
    const int before = different;
    program.compare_all(true);
    if (different != before) std::printf("after the timed runs outputs differ%s\n", before ? ", too" : "");
  }
  std::fflush(nullptr);
  _exit(different || !compared ? 1 : 0);  // what the driver does at exit is of no interest
}
