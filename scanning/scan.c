// libreplay_scan.so: goes through a block of a raw capture's records (replay/raw/FORMAT.md), checks them, and
// tells which calls are of which class, so that packing need not look at each of millions of calls.
//
// A call has a class when its ENTER and its LEAVE are both in the block, it succeeded, and the table of
// functions says that it is an ordinary one. Calls of a class differ only in words that name no object:
// everything else of them (function, thread, handles, sizes, attached structs) is their key, and keys are
// compared as a whole.
//
// The block may come from a stranger: every size is compared with the bytes that are left. Nothing is given
// out beyond the first record that does not fit; its reader in Python says what is wrong with it.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { // replay/api/vocabulary.py
  ENTER = 1,
  LEAVE = 2,
  LAST_KIND = 8,
  BY_CAPTURE_OR_IN_CAPTURE = 0x6000,
  FUNCTIONS = 0x2000
};
enum {
  HEADER_BYTES = 32,
  CHECK_BEGINS = 16,
  LARGEST_RECORD = 16 << 20,
  OPEN_CALLS = 64,     // that wait for their LEAVE at a time; others have no class
  KEY_BYTES = 512,     // a call with a longer key has no class
  CLASSES = 4096,      // replay/raw/columns.py has the same number
  SLOTS = 2 * CLASSES, // of the hash table; a power of two
  LARGEST_ATTACHMENT = 4096
};

// How calls of a function are told apart. key_words: bit n is set when argument n is part of the key.
// free_parts: bit n is set when the bytes attached to parameter n, of part `free_part`, are not.
struct function {
  uint8_t parameters;
  uint8_t ordinary;
  uint8_t free_part;
  uint8_t unused;
  uint32_t key_words;
  uint32_t free_parts;
};

// pair: of an ENTER or a LEAVE with a class, the place of the other one. class: -1 for none.
struct record {
  uint32_t offset;
  uint32_t size;
  uint16_t kind;
  uint16_t function;
  uint32_t thread;
  uint64_t call;
  uint64_t time_ns;
  int32_t class;
  int32_t pair;
};

struct key {
  uint32_t bytes;
  uint8_t data[KEY_BYTES];
};

struct classes {
  uint32_t count;
  uint32_t slots[SLOTS]; // 1 + the number of the class; 0: free
  struct key keys[CLASSES];
};

struct open_call {
  uint64_t call;
  int32_t record;
};

_Static_assert(sizeof(struct record) == 40, "replay/raw/columns.py lays records out like this");
_Static_assert(sizeof(struct function) == 12, "replay/raw/columns.py lays functions out like this");

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

EXPORT size_t replay_classes_bytes(void) { return sizeof(struct classes); }

static uint16_t u16_at(const uint8_t *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint32_t u32_at(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t u64_at(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static bool add(struct key *key, const void *data, size_t bytes) {
  if (bytes > KEY_BYTES - key->bytes)
    return false;
  memcpy(key->data + key->bytes, data, bytes);
  key->bytes += (uint32_t)bytes;
  return true;
}

// Adds the attachments of a record, from `at` on, to the key: their heads, and the contents of those that are
// not free. False: they do not fit, or are not all in the record.
static bool add_attachments(struct key *key, const uint8_t *record, size_t at, size_t size,
                            const struct function *function, bool all_free) {
  while (at < size) {
    if (size - at < 16)
      return false;
    const uint8_t *head = record + at;
    uint32_t parameter = u16_at(head);
    uint64_t length = u64_at(head + 8);
    if (parameter >= function->parameters || head[3] != 0 || length > LARGEST_ATTACHMENT)
      return false;
    size_t padded = ((size_t)length + 7) / 8 * 8;
    if (padded > size - at - 16)
      return false;
    bool is_free = all_free || (head[2] == function->free_part && (function->free_parts >> parameter & 1));
    if (!add(key, head, 16) || (!is_free && !add(key, head + 16, length)))
      return false;
    at += 16 + padded;
  }
  return true;
}

static bool make_key(struct key *key, const uint8_t *block, const struct record *enter,
                     const struct record *leave, const struct function *function) {
  const uint8_t *begun = block + enter->offset, *ended = block + leave->offset;
  size_t arguments_end = HEADER_BYTES + 8 * (size_t)function->parameters;
  if (!function->ordinary || enter->function != leave->function || arguments_end > enter->size)
    return false;
  key->bytes = 0;
  add(key, &enter->function, sizeof enter->function);
  add(key, &enter->thread, sizeof enter->thread);
  add(key, &enter->size, sizeof enter->size);
  add(key, &leave->size, sizeof leave->size);
  for (uint32_t number = 0; number < function->parameters; number++)
    if (function->key_words >> number & 1 && !add(key, begun + HEADER_BYTES + 8 * number, 8))
      return false;
  if (!add_attachments(key, begun, arguments_end, enter->size, function, false))
    return false;
  if (leave->size == HEADER_BYTES)
    return true;
  return leave->size >= HEADER_BYTES + 8 && u32_at(ended + HEADER_BYTES) == 0 &&
         add_attachments(key, ended, HEADER_BYTES + 8, leave->size, function, true);
}

// The class of a key, a new one if it has none; -1 when there is no room for another.
static int32_t class_of(struct classes *classes, const struct key *key) {
  uint64_t hash = 0xcbf29ce484222325u ^ key->bytes;
  size_t at = 0;
  for (; at + 8 <= key->bytes; at += 8) {
    hash = (hash ^ u64_at(key->data + at)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  for (; at < key->bytes; at++)
    hash = (hash ^ key->data[at]) * 0x100000001b3u;
  for (size_t slot = (size_t)(hash ^ hash >> 32) % SLOTS;; slot = (slot + 1) % SLOTS) {
    uint32_t number = classes->slots[slot];
    if (number == 0) {
      if (classes->count == CLASSES)
        return -1;
      classes->slots[slot] = ++classes->count;
      struct key *kept = &classes->keys[classes->count - 1];
      kept->bytes = key->bytes;
      memcpy(kept->data, key->data, key->bytes);
      return (int32_t)classes->count - 1;
    }
    const struct key *kept = &classes->keys[number - 1];
    if (kept->bytes == key->bytes && memcmp(kept->data, key->data, key->bytes) == 0)
      return (int32_t)number - 1;
  }
}

static void open_call(struct open_call *open, size_t *count, uint64_t call, int32_t record) {
  for (size_t at = *count; at-- > 0;)
    if (open[at].call == call)
      open[at].record = -1; // begins twice: neither has a class
  if (*count == OPEN_CALLS) {
    memmove(open, open + 1, (OPEN_CALLS - 1) * sizeof *open);
    --*count;
  }
  open[(*count)++] = (struct open_call){call, record};
}

static int32_t close_call(struct open_call *open, size_t *count, uint64_t call) {
  for (size_t at = *count; at-- > 0;)
    if (open[at].call == call) {
      int32_t record = open[at].record;
      memmove(open + at, open + at + 1, (*count - at - 1) * sizeof *open);
      --*count;
      return record;
    }
  return -1;
}

static bool is_twice(const struct open_call *open, size_t count, uint64_t call) {
  size_t found = 0;
  for (size_t at = 0; at < count; at++)
    found += open[at].call == call;
  return found > 1;
}

// Fills `records` with what lies whole and sound at the beginning of the block, at most `room`, and says in
// *consumed how many bytes they take. *plain: what follows may be a record of which the block holds the
// beginning.
EXPORT size_t replay_scan(const uint8_t *block, size_t bytes, const struct function *functions,
                          struct classes *classes, struct record *records, size_t room, size_t *consumed,
                          uint32_t *plain) {
  struct open_call open[OPEN_CALLS];
  size_t open_count = 0, count = 0, at = 0;
  *plain = 1;
  while (bytes - at >= HEADER_BYTES && count < room) {
    const uint8_t *head = block + at;
    uint32_t size = u32_at(head);
    uint16_t kind = u16_at(head + 4);
    if (size % 8 || size < HEADER_BYTES || size > LARGEST_RECORD || kind == 0 || kind > LAST_KIND) {
      *plain = 0;
      break;
    }
    if (size > bytes - at)
      break;
    if (u32_at(head + 12) != crc32c(0, head + CHECK_BEGINS, size - CHECK_BEGINS)) {
      *plain = 0;
      break;
    }
    struct record *record = &records[count];
    *record =
        (struct record){(uint32_t)at,      size, kind, u16_at(head + 6), u32_at(head + 8), u64_at(head + 16),
                        u64_at(head + 24), -1,   -1};
    if (kind == ENTER) {
      open_call(open, &open_count, record->call, (int32_t)count);
    } else if (kind == LEAVE) {
      bool twice = is_twice(open, open_count, record->call);
      int32_t begun = close_call(open, &open_count, record->call);
      if (begun >= 0 && !twice && !(record->function & BY_CAPTURE_OR_IN_CAPTURE)) {
        struct key key;
        const struct function *function = &functions[record->function & (FUNCTIONS - 1)];
        if (make_key(&key, block, &records[begun], record, function)) {
          records[begun].class = record->class = class_of(classes, &key);
          records[begun].pair = record->class < 0 ? -1 : (int32_t)count;
          record->pair = record->class < 0 ? -1 : begun;
        }
      }
    }
    count++;
    at += size;
  }
  *consumed = at;
  return count;
}
