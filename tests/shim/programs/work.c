// A program of launches that ends in the way it is told.
// usage: work THREADS LAUNCHES ENDING [KERNEL [shared]]
// shared: all threads launch on the same numbers.
// ENDING: return, exit, _exit, abort, segv (in the program), kill, faults / kills / aborts / exits (inside
// the driver),
//         thread-exits (a thread ends inside the driver, the program goes on), exec, fork, fork-dies,
//         fork-silent, close-all, close-all-move, chdir
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*init)(unsigned);
static int (*get)(uint64_t *, uint64_t, const char *);
static int (*alloc)(uint64_t *, uint64_t);
static int (*to_host)(void *, uint64_t, uint64_t);
static int (*launch)(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uint64_t,
                     void **, void **);
static int launches, failures, alive;
static uint64_t shared;
static const char *kernel_name = "increment";

#define FAIL_IF(condition) __atomic_fetch_add(&failures, (condition), __ATOMIC_RELAXED)

static void *work(void *unused) {
  uint64_t kernel, data;
  uint32_t count = 256, result[256];
  FAIL_IF(get(&kernel, 1, kernel_name) != 0);
  if (shared == 0)
    FAIL_IF(alloc(&data, sizeof result) != 0);
  else
    data = shared;
  void *values[] = {&data, &count};
  for (int n = 0; n < launches; n++)
    FAIL_IF(launch(kernel, 1, 1, 1, 256, 1, 1, 0, 0, values, NULL) != 0);
  if (shared != 0)
    return NULL;
  FAIL_IF(to_host(result, data, sizeof result) != 0);
  for (int n = 0; n < 256; n++)
    FAIL_IF(result[n] != (uint32_t)launches);
  __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void run_all(int threads) {
  pthread_t started[64];
  alive = threads;
  for (int n = 1; n < threads; n++)
    pthread_create(&started[n], NULL, work, NULL);
  work(NULL);
  for (int n = 1; n < threads; n++)
    pthread_join(started[n], NULL);
  printf("failures %d\n", failures);
  fflush(stdout);
}

// Keeps the other threads in the middle of their calls while this one ends the process.
static void *for_ever(void *unused) {
  launches = 1 << 30;
  return work(NULL);
}

static void one_launch(const char *name) {
  uint64_t kernel, data, none = 0;
  get(&kernel, 1, name), alloc(&data, 4096);
  void *values[] = {&data, &none, &none, &none};
  launch(kernel, 1, 1, 1, 1, 1, 1, 0, 0, values, NULL);
}

static void *thread_exits(void *unused) {
  one_launch("thread_exits");
  return NULL;
}

int main(int count, char **words) {
  int threads = atoi(words[1]);
  launches = atoi(words[2]);
  const char *ending = words[3];
  if (count > 4)
    kernel_name = words[4];
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  init = dlsym(driver, "cuInit"), get = dlsym(driver, "cuModuleGetFunction"),
  alloc = dlsym(driver, "cuMemAlloc_v2");
  to_host = dlsym(driver, "cuMemcpyDtoH_v2"), launch = dlsym(driver, "cuLaunchKernel");
  if (!strcmp(ending, "fork")) { // before and after the first driver call
    pid_t child = fork();
    if (child == 0) {
      init(0), run_all(threads);
      exit(0);
    }
    waitpid(child, NULL, 0);
  }
  init(0);
  if (count > 5 && !strcmp(words[5], "shared")) {
    uint32_t result[256];
    FAIL_IF(alloc(&shared, sizeof result) != 0);
    run_all(threads);
    FAIL_IF(to_host(result, shared, sizeof result) != 0);
    for (int n = 0; n < 256; n++)
      FAIL_IF(result[n] != (uint32_t)(threads * launches));
    return failures;
  }
  if (!strcmp(ending, "chdir") && chdir("/") != 0)
    return 9;
  run_all(threads);
  if (!strcmp(ending, "fork")) {
    pid_t child = fork();
    if (child == 0) {
      init(0), run_all(threads);
      exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    run_all(threads);
    return status != 0;
  }
  if (!strcmp(ending, "fork-dies")) { // in the middle of its work
    pid_t child = fork();
    if (child == 0) {
      init(0), run_all(threads);
      one_launch("kills");
    }
    int status;
    waitpid(child, &status, 0);
    run_all(threads);
    return !WIFSIGNALED(status);
  }
  if (!strcmp(ending, "thread-exits")) {
    pthread_t leaving[64];
    for (int n = 0; n < threads; n++)
      pthread_create(&leaving[n], NULL, thread_exits, NULL);
    for (int n = 0; n < threads; n++)
      pthread_join(leaving[n], NULL);
    run_all(threads);
    return 0;
  }
  if (!strcmp(ending, "fork-silent")) { // a child that never calls the driver
    pid_t child = fork();
    if (child == 0)
      exit(0);
    int status;
    waitpid(child, &status, 0);
    run_all(threads);
    return status != 0;
  }
  if (!strcmp(ending, "exec"))
    execl(words[0], words[0], words[1], words[2], "return", NULL);
  if (!strncmp(ending, "close-all",
               9)) { // as daemons do; files of the program's own come under the same numbers
    char moved[4096];
    const char *folder = getenv("REPLAY_CAPTURE_DIRECTORY");
    snprintf(moved, sizeof moved, "%s.moved", folder != NULL ? folder : "");
    if (folder != NULL && !strcmp(ending, "close-all-move") && rename(folder, moved) != 0)
      return 9;
    for (int n = 3; n < 1024; n++)
      close(n);
    for (int n = 3; n < 1024; n++)
      if (dup2(1, n) < 0)
        break;
    run_all(threads);
    return 0;
  }
  if (threads > 1 && strcmp(ending, "return") != 0 && strcmp(ending, "exit") != 0 &&
      strcmp(ending, "chdir") != 0) {
    pthread_t others;
    for (int n = 1; n < threads; n++)
      pthread_create(&others, NULL, for_ever, NULL);
    usleep(20000);
  }
  if (!strcmp(ending, "exit"))
    exit(3);
  if (!strcmp(ending, "_exit"))
    _exit(4);
  if (!strcmp(ending, "abort"))
    abort();
  if (!strcmp(ending, "segv"))
    *(volatile int *)16 = 1;
  if (!strcmp(ending, "kill"))
    kill(getpid(), SIGKILL);
  if (!strcmp(ending, "faults") || !strcmp(ending, "kills") || !strcmp(ending, "aborts") ||
      !strcmp(ending, "exits"))
    one_launch(ending);
  return 0;
}
