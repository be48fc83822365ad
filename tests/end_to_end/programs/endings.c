// A program of several threads that ends in the way it is told, while the other threads go on launching.
// usage: endings WAY THREADS [PROGRAM]
//
// Each thread has a stream and a buffer of its own, launches count_up three times and prints what came out.
// Its module is loaded from endings_image.so, where the image is data.
#include "../../../samples/common/driver.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { COUNT = 1000, BLOCK = 128, LAUNCHES = 3, MOST_THREADS = 64 };

static CUfunction count_up;
static CUcontext context_of_all;

static void launch_on(CUdeviceptr address, CUstream stream) {
  uint32_t count = COUNT;
  void *parameters[] = {&address, &count};
  CHECK(
      cuLaunchKernel(count_up, (COUNT + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters, NULL));
}

struct worker {
  CUdeviceptr values;
  CUstream stream;
  uint32_t sum;
};

static void *work(void *given) {
  struct worker *worker = given;
  uint32_t results[COUNT];
  CHECK(cuCtxSetCurrent(context_of_all));
  for (int launch = 0; launch < LAUNCHES; launch++)
    launch_on(worker->values, worker->stream);
  CHECK(cuStreamSynchronize(worker->stream));
  CHECK(cuMemcpyDtoH(results, worker->values, sizeof results));
  worker->sum = 0;
  for (int n = 0; n < COUNT; n++)
    worker->sum += results[n];
  return NULL;
}

// Until the process ends; a launch that fails then is nothing to speak of.
static void *go_on(void *given) {
  struct worker *worker = given;
  uint32_t count = COUNT;
  void *parameters[] = {&worker->values, &count};
  cuCtxSetCurrent(context_of_all);
  for (;;)
    cuLaunchKernel(count_up, 8, 1, 1, BLOCK, 1, 1, 0, worker->stream, parameters, NULL);
  return NULL;
}

static void *leave_after_a_launch(void *given) {
  struct worker *worker = given;
  CHECK(cuCtxSetCurrent(context_of_all));
  launch_on(worker->values, worker->stream);
  pthread_exit(NULL);
}

static void in_threads(void *(*function)(void *), struct worker *workers, int threads, bool wait) {
  pthread_t started[MOST_THREADS];
  for (int n = 0; n < threads; n++)
    if (pthread_create(&started[n], NULL, function, &workers[n]) != 0)
      stop("no thread");
  for (int n = 0; n < threads && wait; n++)
    pthread_join(started[n], NULL);
}

static void print_sums(const struct worker *workers, int threads) {
  for (int n = 0; n < threads; n++)
    printf("thread %d: %u\n", n, workers[n].sum);
  fflush(stdout);
}

int main(int argument_count, char **arguments) {
  static struct worker workers[MOST_THREADS];
  if (argument_count < 3)
    stop("usage: endings WAY THREADS [PROGRAM]");
  const char *way = arguments[1];
  int threads = atoi(arguments[2]);
  if (threads < 1 || threads > MOST_THREADS)
    stop("1 to 64 threads");

  open_device();
  CHECK(cuCtxGetCurrent(&context_of_all));
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s_image.so", arguments[0]);
  void *owner = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!owner)
    stop(dlerror());
  CUmodule module;
  CHECK(cuModuleLoadDataEx(&module, driver_symbol(owner, "image"), 0, NULL, NULL));
  CHECK(cuModuleGetFunction(&count_up, module, "count_up"));
  if (strcmp(way, "dlclose") == 0)
    dlclose(owner);
  for (int n = 0; n < threads; n++) {
    CHECK(cuMemAlloc(&workers[n].values, COUNT * sizeof(uint32_t)));
    CHECK(cuMemsetD32(workers[n].values, 40u + (uint32_t)n, COUNT));
    CHECK(cuStreamCreate(&workers[n].stream, CU_STREAM_NON_BLOCKING));
  }

  if (strcmp(way, "thread-exit") == 0) {
    in_threads(leave_after_a_launch, workers, threads, true);
    CHECK(cuCtxSynchronize());
  }
  if (strcmp(way, "fork") == 0) { // a context does not survive a fork, so the child can only die
    pid_t child = fork();
    if (child == 0)
      kill(getpid(), SIGKILL);
    waitpid(child, NULL, 0);
  }
  in_threads(work, workers, threads, true);
  print_sums(workers, threads);

  if (strcmp(way, "return") == 0 || strcmp(way, "dlclose") == 0 || strcmp(way, "thread-exit") == 0 ||
      strcmp(way, "fork") == 0)
    return 0;
  in_threads(go_on, workers, threads - 1, false);
  usleep(20000);
  if (strcmp(way, "exit") == 0)
    exit(3);
  if (strcmp(way, "_exit") == 0)
    _exit(4);
  if (strcmp(way, "abort") == 0)
    abort();
  if (strcmp(way, "segv") == 0)
    *(volatile int *)8 = 1;
  if (strcmp(way, "kill") == 0)
    kill(getpid(), SIGKILL);
  if (strcmp(way, "exec") == 0 && argument_count > 3)
    execv(arguments[3], arguments + 3);
  if (strcmp(way, "fault") == 0) {
    launch_on(0x10, workers[0].stream);
    CHECK(cuCtxSynchronize());
  }
  stop("no such way");
}
