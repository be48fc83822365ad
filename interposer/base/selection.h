// What of the application is captured: what was asked for in the environment.
#pragma once

#include "base/base.h"
#include "generated/vocabulary.h"

// What `capture --when` watches for.
struct watched {
  uint32_t triggers; // WHEN_...; 0: nothing is watched for
  uint64_t ring; // launches that are kept until it is known whether they went wrong; 0: the next are recorded
  uint64_t hang_ns, time_ns, every_ns, max_snapshots;
  bool in_stream;          // before-images are copied in stream order, and the host does not wait
  bool checks_on_device;   // for NaN
  uint64_t ring_room;      // bytes for them, 0: as usual
  uint64_t ring_bandwidth; // bytes of them in a second, 0: no limit
  uint64_t memory;         // bytes that watching takes in the process at most, 0: no limit
  uint64_t slower;         // in thousandths of the median
  int signal;
};

enum { REACH_REACHABLE, REACH_PARAMETERS, REACH_LIVE };
struct selection {
  bool all, has_kernel, list; // list: launches are counted and nothing is recorded
  bool bounded; // only inside ranges: of this NVTX name, or between cuProfilerStart and cuProfilerStop
  const char *nvtx_range; // NULL: none
  const char *nvtx_texts; // also those of nvtx_range: ENV_NVTX_TEXTS; NULL: none
  bool profiler;
  bool python_stacks, nvtx_stacks; // of each recorded launch
  const char *source;              // only launches from this file and these lines of it: NULL: from anywhere
  size_t source_file_bytes;
  uint32_t first_line, last_line; // 0: any
  bool whole_range;               // the window is one range, whatever is launched in it
  int reach;
  uint64_t first_launch, last_launch, max_bytes, max_launches;
  uint64_t every; // above 0: a window for each such launch that is selected; 0: one window for all
  struct watched when;
};
extern struct selection selection;

// NULL: capture was not asked for. Inline: asked during relocation, when no code of a sanitizer may run.
static inline const char *capture_directory(void) {
  const char *directory = getenv(ENV_DIRECTORY);
  return directory != NULL && directory[0] != '\0' ? directory : NULL;
}
bool read_selection(void); // false: capture was not asked for
bool name_is_selected(const char *name);
bool ordinal_is_selected(uint64_t ordinal); // of a launch that matches
bool launch_is_outside(void); // counts a matching launch, unless the selection has to look at it
void count_after_end(void);   // a matching launch when the capture is complete or has stopped

// The ranges that the selection asks for (NVTX, cuProfilerStart to cuProfilerStop), in all threads.
bool inside_selected_range(void);
bool count_range_begin(void); // true: it is the only one that is open
bool count_range_end(void);   // true: it was the last one
