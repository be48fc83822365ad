// Hashes chunks on the device, so that only those that have changed are copied from it.
//
// A kernel of the shim's own, in PTX that the driver compiles, runs in the application's context on a stream
// of its own while the device is idle and the gate closed. What it needs (a module, a stream, a small buffer)
// is made when it is first wanted and removed when the last window has closed, or before its context ends.
// Nothing of it goes through the wrappers, so nothing is recorded. Whatever fails ends its use in that
// context: the host copies and hashes then, and a note says why. So it does where that is measured to be
// faster, which is no matter of the device alone: a driver may run kernels on the host.
//
// Not yet seen on a GPU.
#include "contents/copy.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/selection.h"
#include "base/state.h"
#include "driver/ask.h"
#include "driver/real.h"
#include "memory/memory.h"
#include "record/writer.h"

#include <stdlib.h>
#include <string.h>

enum {
  THREADS = 256,          // hash.c: columns
  CHUNKS_AT_ONCE = 16384, // 4 GiB a launch, 256 KiB of hashes
  CONTEXTS = 64,
  STREAM_NON_BLOCKING = 1, // CU_STREAM_NON_BLOCKING
  TRIAL_BYTES = 8 << 20,   // what the host reads at once
  TRIALS = 3,
};
// Below this, a copy costs no more than asking. Of a lone window there is one copy to be saved.
static const uint64_t worth_bytes_in_windows = 1 << 20, worth_bytes_alone = 64 << 20;

// The function of hash.c. One block a chunk, one thread a column; sums of 256 states through shared memory.
static const char ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry replay_hash_chunks(.param .u64 p_data, .param .u64 p_bytes, .param .u64 p_hashes,\n"
    "    .param .u64 p_key0, .param .u64 p_key1, .param .u64 p_key2, .param .u64 p_key3)\n"
    "{\n"
    "  .shared .align 16 .b8 sums[16];\n"
    "  .reg .pred %end, %first, %high;\n"
    "  .reg .u32 %thread, %block, %n, %byte, %shift, %sums;\n"
    "  .reg .u64 %data, %bytes, %hashes, %one, %other, %a, %b, %x, %y, %p, %q, %r, %s, %low, %up;\n"
    "  .reg .u64 %column, %left, %begin, %wide, %zero;\n"
    "  mov.u32 %thread, %tid.x;\n"
    "  mov.u32 %block, %ctaid.x;\n"
    "  mov.u32 %sums, sums;\n"
    "  mov.u64 %zero, 0;\n"
    "  setp.eq.u32 %first, %thread, 0;\n"
    "  @%first st.shared.v2.u64 [%sums], {%zero, %zero};\n"
    "  bar.sync 0;\n"
    "  ld.param.u64 %data, [p_data];\n"
    "  cvta.to.global.u64 %data, %data;\n"
    "  ld.param.u64 %bytes, [p_bytes];\n"
    "  ld.param.u64 %one, [p_key2];\n"
    "  ld.param.u64 %other, [p_key3];\n"
    "  cvt.u64.u32 %column, %thread;\n"
    "  ld.param.u64 %a, [p_key0];\n"
    "  mad.lo.u64 %a, %column, 0x9e3779b97f4a7c15, %a;\n"
    "  ld.param.u64 %b, [p_key1];\n"
    "  mad.lo.u64 %b, %column, 0xc2b2ae3d27d4eb4f, %b;\n"
    "  cvt.u64.u32 %wide, %block;\n"
    "  mul.lo.u64 %begin, %wide, 262144;\n"
    "  sub.u64 %left, %bytes, %begin;\n"
    "  min.u64 %left, %left, 262144;\n"
    "  add.u64 %data, %data, %begin;\n"
    "  shl.b64 %column, %column, 4;\n"
    "  add.u64 %data, %data, %column;\n"
    "  max.u64 %left, %left, %column;\n"
    "  sub.u64 %left, %left, %column;\n" // of the chunk, from this column on
    "rows:\n"
    "  setp.lt.u64 %end, %left, 16;\n"
    "  @%end bra last;\n"
    "  ld.global.v2.u64 {%x, %y}, [%data];\n"
    "  xor.b64 %p, %x, %one;\n"
    "  xor.b64 %q, %y, %a;\n"
    "  xor.b64 %r, %y, %other;\n"
    "  xor.b64 %s, %x, %b;\n"
    "  mul.lo.u64 %low, %p, %q;\n"
    "  mul.hi.u64 %up, %p, %q;\n"
    "  xor.b64 %a, %low, %up;\n"
    "  mul.lo.u64 %low, %r, %s;\n"
    "  mul.hi.u64 %up, %r, %s;\n"
    "  xor.b64 %b, %low, %up;\n"
    "  add.u64 %data, %data, 4096;\n"
    "  setp.lt.u64 %end, %left, 4096;\n"
    "  @%end bra finish;\n"
    "  sub.u64 %left, %left, 4096;\n"
    "  bra rows;\n"
    "last:\n" // the bytes of the chunk that fill no column
    "  setp.eq.u64 %end, %left, 0;\n"
    "  @%end bra finish;\n"
    "  mov.u64 %x, 0;\n"
    "  mov.u64 %y, 0;\n"
    "  mov.u32 %n, 0;\n"
    "bytes:\n"
    "  ld.global.u8 %byte, [%data];\n"
    "  cvt.u64.u32 %wide, %byte;\n"
    "  and.b32 %shift, %n, 7;\n"
    "  shl.b32 %shift, %shift, 3;\n"
    "  shl.b64 %wide, %wide, %shift;\n"
    "  setp.ge.u32 %high, %n, 8;\n"
    "  @%high or.b64 %y, %y, %wide;\n"
    "  @!%high or.b64 %x, %x, %wide;\n"
    "  add.u64 %data, %data, 1;\n"
    "  add.u32 %n, %n, 1;\n"
    "  sub.u64 %left, %left, 1;\n"
    "  setp.ne.u64 %end, %left, 0;\n"
    "  @%end bra bytes;\n"
    "  xor.b64 %p, %x, %one;\n"
    "  xor.b64 %q, %y, %a;\n"
    "  xor.b64 %r, %y, %other;\n"
    "  xor.b64 %s, %x, %b;\n"
    "  mul.lo.u64 %low, %p, %q;\n"
    "  mul.hi.u64 %up, %p, %q;\n"
    "  xor.b64 %a, %low, %up;\n"
    "  mul.lo.u64 %low, %r, %s;\n"
    "  mul.hi.u64 %up, %r, %s;\n"
    "  xor.b64 %b, %low, %up;\n"
    "finish:\n"
    "  shr.u64 %low, %a, 32;\n"
    "  xor.b64 %a, %a, %low;\n"
    "  mul.lo.u64 %a, %a, 0xd6e8feb86659fd93;\n"
    "  shr.u64 %low, %a, 29;\n"
    "  xor.b64 %a, %a, %low;\n"
    "  shr.u64 %low, %b, 32;\n"
    "  xor.b64 %b, %b, %low;\n"
    "  mul.lo.u64 %b, %b, 0xd6e8feb86659fd93;\n"
    "  shr.u64 %low, %b, 29;\n"
    "  xor.b64 %b, %b, %low;\n"
    "  red.shared.add.u64 [%sums], %a;\n"
    "  red.shared.add.u64 [%sums+8], %b;\n"
    "  bar.sync 0;\n"
    "  @!%first bra done;\n"
    "  ld.param.u64 %hashes, [p_hashes];\n"
    "  cvta.to.global.u64 %hashes, %hashes;\n"
    "  cvt.u64.u32 %wide, %block;\n"
    "  shl.b64 %wide, %wide, 4;\n"
    "  add.u64 %hashes, %hashes, %wide;\n"
    "  ld.shared.v2.u64 {%a, %b}, [%sums];\n"
    "  st.global.v2.u64 [%hashes], {%a, %b};\n"
    "done:\n"
    "  ret;\n"
    "}\n";

// What the shim has in a context of the application.
struct hasher {
  uint64_t context; // 0: free
  uint64_t module, kernel, stream, buffer;
  bool ready; // false: it cannot be had in this context, or is not worth having
  bool is_judged;
};
static struct hasher
    hashers[CONTEXTS]; // used by the thread that closed the gate, and by one that ends a context
static bool is_wrong;
static uint64_t host_look_ns; // the fastest look by copying and comparing, a MiB; 0: there was none

static void remove_from_context(struct hasher *hasher) {
  int (*unload)(uint64_t) = driver_symbol("cuModuleUnload");
  int (*destroy)(uint64_t) = driver_symbol("cuStreamDestroy_v2");
  int (*release)(uint64_t) = driver_symbol("cuMemFree_v2");
  if (hasher->buffer != 0 && release != NULL)
    release(hasher->buffer);
  if (hasher->stream != 0 && destroy != NULL)
    destroy(hasher->stream);
  if (hasher->module != 0 && unload != NULL)
    unload(hasher->module);
  hasher->module = hasher->kernel = hasher->stream = hasher->buffer = 0;
  hasher->ready = false;
}

static void make_in_context(struct hasher *hasher) {
  int (*load)(uint64_t *, const void *) = driver_symbol("cuModuleLoadData");
  int (*function)(uint64_t *, uint64_t, const char *) = driver_symbol("cuModuleGetFunction");
  int (*create)(uint64_t *, unsigned) = driver_symbol("cuStreamCreate");
  int (*allocate)(uint64_t *, size_t) = driver_symbol("cuMemAlloc_v2");
  hasher->ready = load != NULL && function != NULL && create != NULL && allocate != NULL &&
                  load(&hasher->module, ptx) == SUCCESS &&
                  function(&hasher->kernel, hasher->module, "replay_hash_chunks") == SUCCESS &&
                  create(&hasher->stream, STREAM_NON_BLOCKING) == SUCCESS &&
                  allocate(&hasher->buffer, CHUNKS_AT_ONCE * sizeof(struct hash)) == SUCCESS;
}

static void give_up(struct hasher *hasher, uint64_t call, const char *why) {
  remove_from_context(hasher);
  write_note(NOTE_COPIED_TO_COMPARE, 0, call, "what changed is found by copying and comparing: %s", why);
}

static struct hasher *hasher_of(uint64_t context, uint64_t call) {
  struct hasher *unused = NULL;
  for (struct hasher *hasher = hashers; hasher < hashers + CONTEXTS; hasher++) {
    if (hasher->context == context)
      return hasher;
    if (hasher->context == 0 && unused == NULL)
      unused = hasher;
  }
  if (unused != NULL) {
    unused->context = context;
    make_in_context(unused);
    if (!unused->ready)
      give_up(unused, call, "the driver does not take the kernel that looks for it");
  }
  return unused;
}

bool can_hash_on_device(const struct range *range) {
  uint64_t worth = selection.every != 0 ? worth_bytes_in_windows : worth_bytes_alone;
  return !selection.no_device_hash && !is_wrong && range->base % 16 == 0 && range->bytes >= worth &&
         (range->kind == RANGE_DEVICE || range->kind == RANGE_GLOBAL);
}

// Memory that is mapped without access is an error to a copy; to a kernel it would be the end of the context.
static bool can_be_read(const struct range *range) {
  int (*copy)(void *, uint64_t, size_t) = driver_symbol("cuMemcpyDtoH_v2");
  uint8_t byte;
  return copy != NULL && copy(&byte, range->base, 1) == SUCCESS &&
         copy(&byte, range->base + range->bytes - 1, 1) == SUCCESS;
}

void host_look_took(uint64_t ns, uint64_t bytes) {
  uint64_t look_ns = ns / (bytes >> 20) + 1;
  if (host_look_ns == 0 || look_ns < host_look_ns)
    host_look_ns = look_ns;
}

// The first `bytes` of the range, a multiple of a chunk or all.
static bool look(const struct hasher *hasher, const struct range *range, uint64_t bytes,
                 struct hash *hashes) {
  int (*launch)(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uint64_t,
                void **, void **) = driver_symbol("cuLaunchKernel");
  int (*synchronize)(uint64_t) = driver_symbol("cuStreamSynchronize");
  int (*copy)(void *, uint64_t, size_t) = driver_symbol("cuMemcpyDtoH_v2");
  if (launch == NULL || synchronize == NULL || copy == NULL)
    return false;
  struct hash_key key = *hash_key();
  uint64_t buffer = hasher->buffer;
  size_t count = (size_t)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
  for (size_t done = 0; done < count; done += CHUNKS_AT_ONCE) {
    unsigned blocks = count - done < CHUNKS_AT_ONCE ? (unsigned)(count - done) : CHUNKS_AT_ONCE;
    uint64_t begin = done * (uint64_t)CHUNK_BYTES, data = range->base + begin, left = bytes - begin;
    void *parameters[] = {&data, &left, &buffer, &key.words[0], &key.words[1], &key.words[2], &key.words[3]};
    if (launch(hasher->kernel, blocks, 1, 1, THREADS, 1, 1, 0, hasher->stream, parameters, NULL) != SUCCESS ||
        synchronize(hasher->stream) != SUCCESS ||
        copy(hashes + done, buffer, blocks * sizeof *hashes) != SUCCESS)
      return false;
  }
  return true;
}

// Whether the kernel is worth its use: tried on a little of what it is to look through, before it is let
// loose on gigabytes. The fastest trial counts: the first one loads code, and others may be disturbed.
static bool is_faster_than_host(struct hasher *hasher, const struct range *range, struct hash *hashes) {
  uint64_t fastest_ns = UINT64_MAX;
  if (hasher->is_judged || host_look_ns == 0 || range->bytes < TRIAL_BYTES)
    return true;
  hasher->is_judged = true;
  for (int trial = 0; trial < TRIALS; trial++) {
    uint64_t begin_ns = now_ns();
    if (!look(hasher, range, TRIAL_BYTES, hashes))
      return true; // which the look itself will meet, too
    uint64_t ns = now_ns() - begin_ns;
    fastest_ns = ns < fastest_ns ? ns : fastest_ns;
  }
  return fastest_ns / (TRIAL_BYTES >> 20) <= host_look_ns;
}

bool hash_on_device(const struct range *range, struct hash *hashes, uint64_t call) {
  uint64_t context = current_context();
  struct hasher *hasher = context != 0 ? hasher_of(context, call) : NULL;
  if (hasher == NULL || !hasher->ready || !can_be_read(range))
    return false;
  if (!is_faster_than_host(hasher, range, hashes)) {
    give_up(hasher, call, "that is faster here than the kernel that looks for it");
    return false;
  }
  if (!look(hasher, range, range->bytes, hashes)) {
    give_up(hasher, call, "the kernel that looks for it failed");
    return false;
  }
  atomic_fetch_add(&perturbation.hashed_bytes, range->bytes);
  return true;
}

void device_hash_is_wrong(uint64_t call) {
  is_wrong = true;
  write_note(
      NOTE_COPIED_TO_COMPARE, 0, call,
      "what changed is found by copying and comparing: the kernel that looks for it gave wrong answers");
}

void end_device_hashing(uint64_t context) {
  if (atomic_load(&captures_under_way) >
      0) // unloading may spoil them; it is done when the context or the process ends
    return;
  int (*push)(uint64_t) = driver_symbol("cuCtxPushCurrent_v2");
  int (*pop)(uint64_t *) = driver_symbol("cuCtxPopCurrent_v2");
  for (struct hasher *hasher = hashers; hasher < hashers + CONTEXTS; hasher++) {
    uint64_t popped;
    if (hasher->context == 0 || (context != 0 && hasher->context != context))
      continue;
    if (hasher->ready && push != NULL && pop != NULL && push(hasher->context) == SUCCESS) {
      remove_from_context(hasher);
      pop(&popped);
    }
    memset(hasher, 0, sizeof *hasher);
  }
}

static void reset(void) { memset(hashers, 0, sizeof hashers); } // they are the parent's
IN_CHILD(reset);
