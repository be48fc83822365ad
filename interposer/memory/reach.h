// Which ranges of memory can be reached from words.
#pragma once

#include "memory/memory.h"

// Untouched ranges that words (8-byte aligned) of `data` point into are marked TOUCHED and appended.
void memory_reach(const void *data, size_t bytes, struct range_list *reached);
// Words that may reach something lie in these spans: of addresses, with room around them, and of handles.
struct word_spans {
  uint64_t address, address_bytes, handle, handles;
};
struct word_spans memory_word_spans(void);
bool memory_may_reach(const void *data, size_t bytes,
                      const struct word_spans *spans); // or holds a tensor map
bool memory_points_to_untouched(const void *data, size_t bytes);
