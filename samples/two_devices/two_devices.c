// Two devices that work on the same values in turn: each has a context, a stream, a module and memory of its
// own; values are copied from one to the other, in the order that events give. With one device, that one does
// all of it.
#define SAMPLE_FUNCTIONS(FUNCTION)                                                                           \
  FUNCTION(cuDeviceGetCount, cuDeviceGetCount, (int *))                                                      \
  FUNCTION(cuMemcpyPeerAsync, cuMemcpyPeerAsync,                                                             \
           (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))
#include "../common/driver.h"

enum { COUNT = 3001, THREADS = 128, BLOCKS = (COUNT + THREADS - 1) / THREADS, PLACES = 2 };

typedef struct {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction advance;
  CUstream stream;
  CUevent done;
  CUdeviceptr values;
} Place;

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static uint32_t expected[COUNT], got[COUNT];
  Place places[PLACES];
  int devices;

  CUdevice first = open_device();
  CHECK(cuDeviceGetCount(&devices));
  for (int n = 0; n < PLACES; n++) {
    Place *place = &places[n];
    CHECK(cuDeviceGet(&place->device, n % devices));
    CHECK(cuDevicePrimaryCtxRetain(&place->context, place->device));
    CHECK(cuCtxSetCurrent(place->context));
    place->module = load_module("two_devices.ptx");
    CHECK(cuModuleGetFunction(&place->advance, place->module, "advance"));
    CHECK(cuStreamCreate(&place->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&place->done, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&place->values, sizeof got));
  }
  for (uint32_t i = 0; i < COUNT; i++)
    expected[i] = i;
  CHECK(cuCtxSetCurrent(places[0].context));
  CHECK(cuMemcpyHtoD(places[0].values, expected, sizeof expected));
  CHECK(cuCtxSynchronize()); // such a copy may return early, and the stream does not wait for it

  uint32_t count = COUNT;
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    for (int n = 0; n < PLACES; n++) {
      Place *here = &places[n], *next = &places[(n + 1) % PLACES];
      uint32_t salt = launch * 2654435761u + (uint32_t)n;
      void *parameters[] = {&here->values, &count, &salt};
      CHECK(cuCtxSetCurrent(here->context));
      CHECK(cuLaunchKernel(here->advance, BLOCKS, 1, 1, THREADS, 1, 1, 0, here->stream, parameters, NULL));
      CHECK(cuMemcpyPeerAsync(next->values, next->context, here->values, here->context, sizeof got,
                              here->stream));
      CHECK(cuEventRecord(here->done, here->stream));
      CHECK(cuCtxSetCurrent(next->context));
      CHECK(cuStreamWaitEvent(next->stream, here->done, 0));
      for (uint32_t i = 0; i < COUNT; i++)
        expected[i] = (expected[i] ^ salt) * 1664525u + i;
    }
    pause_between_launches(&options, launch);
  }
  CHECK(cuCtxSetCurrent(places[0].context));
  CHECK(cuStreamSynchronize(places[0].stream));
  CHECK(cuMemcpyDtoH(got, places[0].values, sizeof got));
  for (uint32_t i = 0; i < COUNT; i++) {
    if (got[i] != expected[i]) {
      fprintf(stderr, "two_devices: value %u is %u, expected %u\n", i, got[i], expected[i]);
      return EXIT_FAILURE;
    }
  }

  for (int n = PLACES - 1; n >= 0; n--) {
    CHECK(cuCtxSetCurrent(places[n].context));
    CHECK(cuMemFree(places[n].values));
    CHECK(cuEventDestroy(places[n].done));
    CHECK(cuStreamDestroy(places[n].stream));
    CHECK(cuModuleUnload(places[n].module));
  }
  say_device(first);
  for (int n = 0; n < PLACES; n++)
    CHECK(cuDevicePrimaryCtxRelease(places[n].device));
  CHECK(cuDevicePrimaryCtxRelease(first));
  printf("%u rounds over %d of %d devices, all correct\n", options.launches, devices < PLACES ? 1 : PLACES,
         devices);
  return EXIT_SUCCESS;
}
