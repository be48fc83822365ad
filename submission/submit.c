// libreplay_submit.so: calls a table of functions one after another, in C, so that a replay of a window with
// many launches keeps the device busy.
//
// Generic: it knows nothing of CUDA. A row is a function and its argument words; functions take integers and
// pointers alone, of which the calling conventions of x86-64 and aarch64 (Linux) pass each as one word, and
// leave words that a function does not take to the caller.
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum {
  WORDS = 12
}; // no driver function takes more; replay/engine/execution/submission.py has the same number

struct row {
  int32_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                      uint64_t, uint64_t, uint64_t, uint64_t);
  uint64_t words[WORDS];
  uint64_t must_succeed;
};

_Static_assert(sizeof(struct row) == 8 * (WORDS + 2),
               "replay/engine/execution/submission.py lays rows out like this");

// Returns how many rows were done; fewer than `count` when a row that must succeed did not, whose result is
// then in *result.
EXPORT size_t replay_submit(const struct row *rows, size_t count, int32_t *result) {
  for (size_t at = 0; at < count; at++) {
    const struct row *row = &rows[at];
    const uint64_t *w = row->words;
    int32_t code = row->function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11]);
    if (code != 0 && row->must_succeed) {
      *result = code;
      return at;
    }
  }
  return count;
}

// What calls that repeat have in common: the row, in which the word `argument` is the address of `addresses`
// (WORDS: none is). Each address is that of the call's own parameters, and so many bytes more.
struct repeated {
  struct row row;
  uint64_t argument;
  uint64_t count;
  const uint64_t *offsets;
  uint64_t stride; // from a call's parameters to those of the next call
  uint64_t lane;   // second word of the marks around such a call
};

_Static_assert(sizeof(struct repeated) == 8 * (WORDS + 7),
               "replay/engine/execution/submission.py lays templates out like this");

// Around some of the calls, whose places ascend, a function of two words: words[2 n] before the call at
// places[n] and words[2 n + 1] after it, each with the lane of the call's template.
struct marks {
  int32_t (*function)(uint64_t, uint64_t);
  const uint32_t *places;
  const uint64_t *words;
  uint64_t count;
  uint64_t failed; // set where it was a mark that did not succeed
};

_Static_assert(sizeof(struct marks) == 8 * 5,
               "replay/engine/execution/submission.py lays marks out like this");

static int32_t mark(struct marks *marks, size_t word, uint64_t lane) {
  int32_t code = marks->function(marks->words[word], lane);
  marks->failed = code != 0;
  return code;
}

// Calls templates[which[0]], templates[which[1]], ...: all of them must succeed, and all marks (NULL: there
// are none). Returns as replay_submit.
EXPORT size_t replay_submit_repeated(const struct repeated *templates, const uint32_t *which, size_t count,
                                     uint64_t parameters, uint64_t *addresses, struct marks *marks,
                                     int32_t *result) {
  size_t next = 0;
  for (size_t at = 0; at < count; at++) {
    const struct repeated *one = &templates[which[at]];
    uint64_t w[WORDS + 1];
    for (size_t word = 0; word < WORDS; word++)
      w[word] = one->row.words[word];
    w[one->argument] = (uint64_t)(uintptr_t)addresses;
    for (size_t parameter = 0; parameter < one->count; parameter++)
      addresses[parameter] = parameters + one->offsets[parameter];
    parameters += one->stride;
    int is_marked = marks != NULL && next < marks->count && marks->places[next] == at;
    int32_t code = is_marked ? mark(marks, 2 * next, one->lane) : 0;
    if (code == 0)
      code = one->row.function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11]);
    if (code == 0 && is_marked)
      code = mark(marks, 2 * next++ + 1, one->lane);
    if (code != 0) {
      *result = code;
      return at;
    }
  }
  return count;
}
