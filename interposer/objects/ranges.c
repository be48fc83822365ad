// NVTX ranges that are open in a thread, in the order in which they were pushed, whatever their domains. A
// name is the application's only while it calls, so it is copied; what a launch does with them is to read one
// word.
#include "objects/ranges.h"

#include "base/state.h"

#include <stdio.h>

static atomic_bool is_used;

bool nvtx_is_used(void) { return atomic_load(&is_used); }
void note_nvtx_is_used(void) { atomic_store(&is_used, true); }

static uint64_t mixed(uint64_t key, uint64_t word) { return (key ^ word ^ key >> 29) * 0x9e3779b97f4a7c15u; }

// Of a longer name its beginning, up to a whole character.
static size_t copy_name(char *to, const char *name) {
  size_t length = strnlen(name, RANGE_NAME_BYTES);
  if (length == RANGE_NAME_BYTES)
    for (length--; length > 0 && ((uint8_t)name[length] & 0xc0) == 0x80;)
      length--;
  // Zero to the end of its last word, which is as far as `set_key` reads.
  memset(to + (length & ~(sizeof(uint64_t) - 1)), 0, sizeof(uint64_t));
  memcpy(to, name, length);
  return length;
}

static void set_key(struct open_range *range, size_t length) {
  uint64_t key = mixed((uintptr_t)range->domain, range->category);
  key = mixed(mixed(key, (uint64_t)range->payload.type), range->payload.value);
  for (size_t n = 0; n < length; n += sizeof(uint64_t))
    key = mixed(key, word_at(range->name, n));
  range->key = key;
}

static void set_keys(struct open_range *ranges, unsigned n) {
  ranges[n].keys = mixed(n > 0 ? ranges[n - 1].keys : 0, ranges[n].key);
}

bool open_range(const char *domain, const char *name, uint32_t category, struct range_payload payload) {
  struct thread *thread = current_thread();
  if (thread->ranges == NULL)
    thread->ranges = calloc(MOST_RANGES, sizeof *thread->ranges);
  if (thread->ranges == NULL || thread->ranges_open == MOST_RANGES)
    return false;
  struct open_range *range = &thread->ranges[thread->ranges_open];
  range->domain = domain;
  range->payload = payload;
  range->category = category;
  set_key(range, copy_name(range->name, name));
  set_keys(thread->ranges, thread->ranges_open++);
  return true;
}

void close_range(const char *domain) {
  struct thread *thread = current_thread();
  unsigned place = thread->ranges_open;
  while (place > 0 && thread->ranges[place - 1].domain != domain)
    place--;
  if (place == 0)
    return;
  thread->ranges_open--;
  // Those of other domains that were opened since stay open.
  for (unsigned n = place - 1; n < thread->ranges_open; n++) {
    thread->ranges[n] = thread->ranges[n + 1];
    set_keys(thread->ranges, n);
  }
}

// Without what would end a line or a field.
static void make_plain(char *text) {
  for (; *text != '\0'; text++)
    if ((uint8_t)*text < 0x20 || *text == 0x7f)
      *text = '?';
}

static void describe_payload(struct range_payload payload, char *text, size_t bytes) {
  enum { NONE, UINT64, INT64, DOUBLE, UINT32, INT32, FLOAT }; // nvtxPayloadType_t
  double number;
  float single;
  memcpy(&number, &payload.value, sizeof number);
  memcpy(&single, &payload.value, sizeof single);
  text[0] = '\0';
  switch (payload.type) {
  case UINT64:
    snprintf(text, bytes, "%lu", payload.value);
    break;
  case INT64:
    snprintf(text, bytes, "%ld", (int64_t)payload.value);
    break;
  case DOUBLE:
    snprintf(text, bytes, "%.17g", number);
    break;
  case UINT32:
    snprintf(text, bytes, "%u", (uint32_t)payload.value);
    break;
  case INT32:
    snprintf(text, bytes, "%d", (int32_t)payload.value);
    break;
  case FLOAT:
    snprintf(text, bytes, "%.9g", (double)single);
    break;
  default: // none, and extended payloads, which only a schema of the application explains
    break;
  }
}

size_t describe_range(const struct open_range *range, char *text, size_t bytes) {
  char domain[RANGE_NAME_BYTES], name[RANGE_NAME_BYTES], payload[32];
  copy_name(domain, range->domain != NULL ? range->domain : "");
  memcpy(name, range->name, sizeof name);
  make_plain(domain);
  make_plain(name);
  describe_payload(range->payload, payload, sizeof payload);
  return (size_t)snprintf(text, bytes, "%u\t%s\t%s\t%s\n", range->category, payload, domain, name);
}
