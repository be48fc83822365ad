// Tensor maps: 128 opaque bytes that an application encodes on the host and hands to kernels by value or in
// memory. The latest are remembered with the address they were encoded for, which is what a kernel reaches
// through them.
//
// Not yet seen on a GPU.
#include "memory/tensor_maps.h"

#include "base/bytes.h"
#include "base/fork.h"

#include <pthread.h>
#include <string.h>

enum { REMEMBERED = 4096, CHAINS = 1024 }; // powers of two

struct map {
  uint8_t bytes[TENSOR_MAP_BYTES];
  uint64_t address;
  uint32_t next; // in its chain, plus 1
};

atomic_uint tensor_maps;
static MUTEX(lock);
static struct map maps[REMEMBERED];
static uint32_t chains[CHAINS]; // position plus 1
static uint64_t added;
// A bit for the first word of each map there ever was: memory is searched, and nearly all of it is no map.
static _Atomic uint64_t first_words[64];

static uint64_t first_word_hash(const void *bytes) {
  uint64_t word;
  memcpy(&word, bytes, 8);
  return word * 0x9e3779b97f4a7c15u >> 52; // 12 bits
}

static uint32_t *chain_of(const uint8_t *bytes) {
  return &chains[crc32c(0, bytes, TENSOR_MAP_BYTES) % CHAINS];
}

static struct map *find(const uint8_t *bytes) {
  for (uint32_t at = *chain_of(bytes); at != 0; at = maps[at - 1].next)
    if (memcmp(maps[at - 1].bytes, bytes, TENSOR_MAP_BYTES) == 0)
      return &maps[at - 1];
  return NULL;
}

static void unlink_map(uint32_t position) {
  uint32_t *at = chain_of(maps[position].bytes);
  while (*at != 0 && *at != position + 1)
    at = &maps[*at - 1].next;
  if (*at != 0)
    *at = maps[position].next;
}

void tensor_map_add(const void *bytes, uint64_t address) {
  uint64_t hash = first_word_hash(bytes);
  atomic_fetch_or(&first_words[hash / 64], (uint64_t)1 << hash % 64);
  pthread_mutex_lock(&lock);
  struct map *map = find(bytes);
  if (map == NULL) {
    uint32_t position = (uint32_t)(added % REMEMBERED);
    if (added++ >= REMEMBERED)
      unlink_map(position);
    else
      atomic_store(&tensor_maps, (unsigned)added);
    map = &maps[position];
    memcpy(map->bytes, bytes, TENSOR_MAP_BYTES);
    uint32_t *chain = chain_of(bytes);
    map->next = *chain;
    *chain = position + 1;
  }
  map->address = address;
  pthread_mutex_unlock(&lock);
}

uint64_t tensor_map_address(const void *bytes) {
  uint64_t hash = first_word_hash(bytes);
  if ((atomic_load_explicit(&first_words[hash / 64], memory_order_relaxed) >> hash % 64 & 1) == 0)
    return 0;
  pthread_mutex_lock(&lock);
  struct map *map = find(bytes);
  uint64_t address = map != NULL ? map->address : 0;
  pthread_mutex_unlock(&lock);
  return address;
}
