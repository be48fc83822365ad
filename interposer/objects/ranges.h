// NVTX ranges that are open in a thread.
#pragma once

#include "base/base.h"

enum { MOST_RANGES = 64, RANGE_NAME_BYTES = 512 };

struct range_payload {
  int32_t type; // nvtxPayloadType_t; 0: none
  uint64_t value;
};

struct open_range {
  const char *domain; // NULL: the default one
  struct range_payload payload;
  uint32_t category; // 0: none
  uint64_t key;      // the same for ranges that are described alike
  uint64_t keys;     // likewise, with all ranges around it
  char name[RANGE_NAME_BYTES];
};

bool nvtx_is_used(void); // by anything in this process
void note_nvtx_is_used(void);

// False: too many are open in this thread, or there is no memory.
bool open_range(const char *domain, const char *name, uint32_t category, struct range_payload payload);
void close_range(const char *domain); // the newest one of it that was opened

// As `range.<n>` of replay/raw/FORMAT.md has it, after the `=`; the length.
size_t describe_range(const struct open_range *range, char *text, size_t bytes);
