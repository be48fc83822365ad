// A program that ends badly, in the way its argument names, after two launches. For tests, and to see what
// capture keeps. usage: crash WAY [PROGRAM ARGUMENT...]
#include "../common/driver.h"

#include <signal.h>
#include <sys/wait.h>

enum { COUNT = 1000, THREADS = 128, LAUNCHES = 2 };

static CUfunction count_up;
static CUdeviceptr values;

static void launch_on(CUdeviceptr address) {
  uint32_t count = COUNT;
  void *parameters[] = {&address, &count};
  CHECK(cuLaunchKernel(count_up, (COUNT + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, NULL, parameters,
                       NULL));
}

static void end_by_return(char **rest) { (void)rest; }
static void end_by_status(char **rest) {
  (void)rest;
  exit(3);
}
static void end_by_quick_exit(char **rest) {
  (void)rest;
  _exit(4);
}
static void end_by_abort(char **rest) {
  (void)rest;
  abort();
}
static void end_by_segmentation_fault(char **rest) {
  (void)rest;
  int *volatile nowhere = (int *)8;
  *nowhere = 1;
}
static void end_by_kill(char **rest) {
  (void)rest;
  kill(getpid(), SIGKILL);
}
static void end_by_device_fault(char **rest) {
  (void)rest;
  launch_on(0x10);
  CHECK(cuCtxSynchronize());
}
static void end_by_exec(char **rest) {
  if (!rest[0])
    stop("exec needs a program");
  execvp(rest[0], rest);
  stop("the program cannot be executed");
}
// The child only ends: a context does not survive a fork.
static void end_after_fork(char **rest) {
  (void)rest;
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    stop("the child did not end well");
  launch_on(values);
  CHECK(cuCtxSynchronize());
}

static const struct {
  const char *name, *meaning;
  bool uses_cuda;
  void (*end)(char **rest);
} ways[] = {
    {"return", "ends well", true, end_by_return},
    {"status", "exit(3)", true, end_by_status},
    {"_exit", "_exit(4)", true, end_by_quick_exit},
    {"abort", "SIGABRT", true, end_by_abort},
    {"segv", "SIGSEGV", true, end_by_segmentation_fault},
    {"kill", "SIGKILL", true, end_by_kill},
    {"fault", "a kernel writes to a wrong address", true, end_by_device_fault},
    {"exec", "becomes PROGRAM after its launches", true, end_by_exec},
    {"exec-first", "becomes PROGRAM before it uses CUDA", false, end_by_exec},
    {"fork", "forks a child that ends, launches once more and ends well", true, end_after_fork},
    {"no-cuda", "ends well and never loads the driver", false, end_by_return},
    {"no-cuda-status", "exit(3), never loads the driver", false, end_by_status},
};

int main(int argument_count, char **arguments) {
  for (size_t way = 0; argument_count > 1 && way < sizeof ways / sizeof *ways; way++) {
    if (strcmp(arguments[1], ways[way].name) != 0)
      continue;
    if (ways[way].uses_cuda) {
      open_device();
      CUmodule module = load_module("crash.ptx");
      CHECK(cuModuleGetFunction(&count_up, module, "count_up"));
      CHECK(cuMemAlloc(&values, COUNT * sizeof(uint32_t)));
      CHECK(cuMemsetD32(values, 41, COUNT));
      for (int launch = 0; launch < LAUNCHES; launch++)
        launch_on(values);
      CHECK(cuCtxSynchronize());
    }
    ways[way].end(arguments + 2);
    return EXIT_SUCCESS;
  }
  fprintf(stderr, "usage: crash WAY [PROGRAM ARGUMENT...]\n");
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
    fprintf(stderr, "  %-15s %s\n", ways[way].name, ways[way].meaning);
  return 2;
}
