// Launches that are watched and not waited for, one of which goes wrong. usage: watched WAY
// It says in which launch that was; launches count from 1.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ILLEGAL_ADDRESS = 700, NOT_READY = 600 };

static void *driver;
static int (*alloc)(uint64_t *, uint64_t), (*get)(uint64_t *, uint64_t, const char *), (*synchronise)(void);
static int (*launch)(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uint64_t,
                     void **, void **);
static volatile int *stops, *next_stops;
static volatile unsigned *room;
static void (*go_on)(void);
static uint64_t increment, too_large, sleeps, data;
static int launches;

static void *find(const char *name) { return dlsym(driver, name); }

// It prints nothing of what it was answered: that is looked at by who calls.
static int launch_in(uint64_t kernel, uint64_t stream) {
  uint64_t count = 64;
  void *values[] = {&data, &count, &count, &count};
  __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
  return launch(kernel, 1, 1, 1, 64, 1, 1, 0, stream, values, NULL);
}

static void launch_several(int times, uint64_t stream) {
  for (int n = 0; n < times; n++)
    if (launch_in(increment, stream) != 0)
      exit(9);
}

static void say(const char *what) {
  printf("%s %d\n", what, launches);
  fflush(stdout);
}

// Two more are submitted after the launch in which the device stops, before anybody is told.
static void fail(uint64_t stream, int answer) {
  *next_stops = answer;
  launch_several(1, stream);
  say("wrong");
  launch_several(2, stream);
}

static void *capture_streams(void *unused) {
  int (*begin)(uint64_t, int) = find("cuStreamBeginCapture_v2"),
                         (*end)(uint64_t, uint64_t *) = find("cuStreamEndCapture");
  uint64_t graph;
  usleep(200000); // the other thread is inside its launch
  begin(0x77, 0);
  usleep(800000);
  end(0x77, &graph);
  return NULL;
}

static void *launch_and_ask(void *unused) {
  while (synchronise() == 0)
    launch_in(increment, 0);
  synchronise();
  return NULL;
}

static void *launch_on(void *unused) {
  for (;;)
    launch_in(increment, 0);
}

int main(int count, char **words) {
  const char *way = words[1];
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = find("cuInit"), (*destroy)(uint64_t) = find("cuCtxDestroy_v2");
  int (*end_stream)(uint64_t) = find("cuStreamDestroy_v2");
  get = find("cuModuleGetFunction"), alloc = find("cuMemAlloc_v2"), launch = find("cuLaunchKernel");
  synchronise = find("cuCtxSynchronize"), stops = find("fake_device_stops"),
  go_on = find("fake_device_goes_on");
  room = find("fake_room"), next_stops = find("fake_launch_stops_device");
  init(0);
  alloc(&data, 1024);
  get(&increment, 1, "increment"), get(&too_large, 1, "too_large"), get(&sleeps, 1, "sleeps");
  launch_several(3, 0);
  pthread_t threads[8];

  if (!strcmp(way, "error")) {
    fail(0, ILLEGAL_ADDRESS);
  } else if (!strcmp(way, "refused")) { // the second time without a wait
    launch_in(too_large, 0);
    usleep(150000); // after a hit there is a pause, and a longer one after the next
    launch_in(too_large, 0);
    say("refused");
    usleep(350000);
    launch_several(4, 0);
    fail(0, ILLEGAL_ADDRESS);
  } else if (!strcmp(way, "streams")) {
    launch_several(2, 0x11), launch_several(2, 0x22);
    *next_stops = ILLEGAL_ADDRESS;
    launch_in(increment, 0x22);
    say("wrong");
    launch_in(increment, 0x11), launch_in(increment, 0x22);
  } else if (!strcmp(way, "ended stream")) { // another has its handle
    launch_several(2, 0x11);
    end_stream(0x11);
    launch_several(2, 0x11);
    fail(0x11, ILLEGAL_ADDRESS);
  } else if (!strcmp(way, "capture")) { // begun and ended by another thread, in the middle of a launch
    launch_in(sleeps, 0);
    pthread_create(&threads[0], NULL, capture_streams, NULL);
    launch_in(sleeps, 0);
    pthread_join(threads[0], NULL);
    launch_several(3, 0);
    fail(0, ILLEGAL_ADDRESS);
  } else if (!strcmp(way, "threads")) { // all are told at once
    for (int n = 0; n < 8; n++)
      pthread_create(&threads[n], NULL, launch_and_ask, NULL);
    usleep(3000);
    *next_stops = ILLEGAL_ADDRESS;
    for (int n = 0; n < 8; n++)
      pthread_join(threads[n], NULL);
  } else if (!strcmp(way, "context")) { // ends while the device has not done its work, which it does later
    launch_several(2, 0);
    fail(0, NOT_READY);
    destroy(0xc0de0);
    go_on();
    launch_several(2, 0);
  } else if (!strncmp(way, "fork", 4)) {
    int hangs = !strcmp(way, "fork hang");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      init(0), alloc(&data, 1024), get(&increment, 1, "increment");
      launch_several(3, 0);
    }
    if (child != 0)
      waitpid(child, NULL, 0);
    fail(0, hangs ? NOT_READY : ILLEGAL_ADDRESS);
    sleep(2 * (unsigned)hangs);
  } else if (!strcmp(way, "shared")) { // another stream reaches the same memory while a launch is under way
    launch_several(2, 0x11);
    *next_stops = NOT_READY;
    launch_several(1, 0x11);
    say("flown");
    launch_several(1, 0x22);
    go_on();
  } else if (!strcmp(way, "shared, ended")) { // by another stream that has the handle of one that has ended
    launch_several(2, 0x11);
    *next_stops = NOT_READY;
    launch_several(1, 0x11);
    say("flown");
    end_stream(0x11);
    launch_several(1, 0x11);
    go_on();
  } else if (!strcmp(way, "exit")) { // before anybody has looked at the last ones
    launch_several(20, 0);
    say("flown");
    exit(0);
  } else if (!strcmp(way, "hang")) {
    fail(0, NOT_READY);
    sleep(2);
  } else if (!strcmp(way, "full queue")) { // who launches more waits inside the driver
    *next_stops = NOT_READY;
    *room = 20;
    launch_in(increment, 0);
    say("wrong");
    pthread_create(&threads[0], NULL, launch_on, NULL);
    sleep(4);
    _exit(5);
  }
  int answer = synchronise();
  if (*stops == NOT_READY)
    go_on();
  return answer == ILLEGAL_ADDRESS ? 7 : answer;
}
