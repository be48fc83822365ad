// Launches a kernel again and again over a buffer of which another part changes before each launch and one
// word in it. usage: changing BYTES LAUNCHES STORED_BYTES RESULT_FILE [FUNCTION]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *driver;
static int failures;

#define CALL(symbol, ...)                                                                                    \
  do {                                                                                                       \
    int (*entry_)() = dlsym(driver, symbol);                                                                 \
    failures += entry_ == NULL || entry_(__VA_ARGS__) != 0;                                                  \
  } while (0)

int main(int count, char **words) {
  size_t bytes = strtoull(words[1], NULL, 10), stored = strtoull(words[3], NULL, 10);
  uint32_t launches = (uint32_t)strtoul(words[2], NULL, 10), one = 1;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  CALL("cuInit", 0);
  uint64_t kernel = 0, data = 0;
  CALL("cuModuleGetFunction", &kernel, (uint64_t)0x77, "increment");
  CALL("cuMemAlloc_v2", &data, (uint64_t)bytes);
  uint32_t *values = malloc(bytes);
  char handle[64];
  if (count > 5) // that shares memory
    CALL(words[5], handle, data, (uint64_t)0, (uint64_t)0, (uint64_t)0);
  for (uint32_t n = 0; n <= launches; n++) {
    size_t length = n == 0 ? bytes : stored, begin = n == 0 ? 0 : n * stored % (bytes - stored);
    for (size_t at = 0; at < length / 4; at++)
      values[at] = ((uint32_t)at + n) * 2654435761u;
    if (length > 0)
      CALL("cuMemcpyHtoD_v2", data + begin, values, (uint64_t)length);
    if (n == 0)
      continue;
    uint64_t place = data + 4096 * n;
    void *parameters[] = {&place, &one};
    CALL("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, (uint64_t)0, parameters, (void **)NULL);
  }
  CALL("cuMemcpyDtoH_v2", values, data, (uint64_t)bytes);
  FILE *result = fopen(words[4], "wb");
  fwrite(values, 1, bytes, result);
  fclose(result);
  printf("failures %d\n", failures);
  return 0;
}
