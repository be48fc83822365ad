// covers: printf in kernels: what it returns, and what arrives on stdout, read back through a pipe.
#include <unistd.h>

#include <cstdarg>
#include <string>

#include "../check.cuh"

__global__ void say(int *returned) {
  int i = threadIdx.x;
  returned[3 * i] = printf("nothing to fill in\n");
  returned[3 * i + 1] = printf("%d %5u|%-6x|%c %s %%\n", -i, i, i * 4096, 'a' + i, i & 1 ? "odd" : "even");
  returned[3 * i + 2] = printf("%.3f %8.2e %lld %p\n", i + 0.5, 1.0 / (i + 1), (1LL << 40) + i, (void *)0);
}

__global__ void one(int value) { printf("value %i\n", value); }

static std::string line(const char *format, ...) {
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

// What `kernels` print, taken from the descriptor 1.
template <class F> std::string printed(F kernels) {
  int ends[2], kept = dup(1);
  REQUIRE(pipe(ends) == 0 && dup2(ends[1], 1) == 1);
  kernels();
  CHECK(cudaDeviceSynchronize());
  std::fflush(stdout);
  dup2(kept, 1);
  close(ends[1]), close(kept);
  std::string text;
  char part[4096];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof(part))) > 0;)
    text.append(part, bytes);
  close(ends[0]);
  return text;
}

int main() {
  const int threads = 4;
  Buffer<int> returned(3 * threads);
  std::string text = printed([&] { say<<<1, threads>>>(returned); });
  std::vector<int> counts;
  size_t bytes = 0;
  for (int i = 0; i < threads; i++) {
    counts.insert(counts.end(), {0, 5, 4}); // the number of arguments
    std::string first = line("%d %5u|%-6x|%c %s %%\n", -i, i, i * 4096, 'a' + i, i & 1 ? "odd" : "even");
    std::string second = line("%.3f %8.2e %lld ", i + 0.5, 1.0 / (i + 1), (1LL << 40) + i);
    REQUIRE(text.find(first) != std::string::npos && text.find(second) != std::string::npos);
    bytes += first.size();
  }
  equal("returned", returned.host(), counts);
  REQUIRE(text.find("nothing to fill in\n") != std::string::npos && text.size() > bytes);

  // In the order of the launches of a stream.
  text = printed([] {
    for (int i = 0; i < 5; i++)
      one<<<1, 1>>>(i * i);
  });
  REQUIRE(text == "value 0\nvalue 1\nvalue 4\nvalue 9\nvalue 16\n");

  size_t buffer = 0;
  CHECK(cudaDeviceGetLimit(&buffer, cudaLimitPrintfFifoSize));
  REQUIRE(buffer >= 1 << 20);
  return ok();
}
