// The work of the fake driver's device: copies that are made later, and a device that stops until it is told
// to go on.
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

// Not 0: the device waits for something that only the application will do.
EXPORT volatile int fake_device_waits;

// The last copy to the host waits until somebody looks whether the stream is idle, or for the next copy.
static struct {
  void *to;
  uint64_t from, bytes;
} queued;

static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;

// Not 0: the device has stopped, and answers this to who asks whether it is idle. What is submitted waits, in
// its order, until it goes on; of more than fake_room whoever submits it waits, too.
EXPORT volatile int fake_device_stops, fake_launch_stops_device; // the next one does
EXPORT volatile unsigned fake_room = 4096;
static struct waiting {
  void *to;
  uint64_t from, bytes;
  uint32_t value; // where bytes is 0
} waiting[4096];
static unsigned waiting_count;

static int submit_later(void *to, uint64_t from, uint64_t bytes, uint32_t value) {
  if (!fake_device_stops)
    return 0;
  while (waiting_count >= fake_room)
    usleep(1000);
  pthread_mutex_lock(&queue);
  waiting[waiting_count++] = (struct waiting){to, from, bytes, value};
  pthread_mutex_unlock(&queue);
  return 1;
}

EXPORT void fake_device_goes_on(void) {
  pthread_mutex_lock(&queue);
  for (unsigned n = 0; n < waiting_count; n++)
    if (waiting[n].bytes > 0)
      memcpy(waiting[n].to, (void *)(uintptr_t)waiting[n].from, waiting[n].bytes);
    else
      memcpy(waiting[n].to, &waiting[n].value, sizeof waiting[n].value);
  waiting_count = 0;
  fake_device_stops = 0;
  pthread_mutex_unlock(&queue);
}

static void queue_copy(void *to, uint64_t from, uint64_t bytes) {
  pthread_mutex_lock(&queue);
  if (queued.to != NULL)
    memcpy(queued.to, (void *)(uintptr_t)queued.from, queued.bytes);
  queued.to = to, queued.from = from, queued.bytes = bytes;
  pthread_mutex_unlock(&queue);
}

static void run_queued(void) { queue_copy(NULL, 0, 0); }
