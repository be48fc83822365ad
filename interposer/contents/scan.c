// Two kernels of our own, for `--when nan` with a GPU. One looks on the device whether memory holds a NaN or
// an infinity, the other copies memory to the host where one was found, so that of most launches only copies
// from before them travel. The driver is asked for them past the wrappers, so they are recorded nowhere and
// the application has no handle of them.
//
// Not yet seen on a GPU (GT-NAN-ON-DEVICE).
#include "contents/images.h"

#include "base/selection.h"
#include "driver/real.h"
#include "generated/structs.h"

// Bits as nonfinite_in has them; a byte for each of them, which is only ever set, so no atomics are needed.
#define COMPARE(value, infinity, nan_bit, infinity_bit)                                                      \
  "setp.gt.u32 %p, " value ", " infinity "; @%p or.b32 %b, %b, " nan_bit ";\n"                               \
  "setp.eq.u32 %p, " value ", " infinity "; @%p or.b32 %b, %b, " infinity_bit ";\n"
#define HALF(word, shift)                                                                                    \
  "shr.u32 %h, " word ", " shift "; and.b32 %h, %h, 0x7fff;\n" COMPARE("%h", "0x7c00", "1", "16")            \
      COMPARE("%h", "0x7f80", "2", "32")
#define SINGLE(word)                                                                                         \
  "and.b32 %h, " word ", 0x7fffffff;\n" COMPARE("%h", "0x7f800000", "4", "64") HALF(word, "0")               \
      HALF(word, "16")
#define TELL(bit, place)                                                                                     \
  "and.b32 %h, %b, " bit "; setp.ne.u32 %p, %h, 0; @%p st.volatile.global.u8 [%flags+" place "], 1;\n"
static const char text[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry replay_nonfinite(.param .u64 data, .param .u64 bytes, .param .u64 flags, "
    ".param .u32 wanted, .param .u64 found) {\n"
    ".reg .u64 %data, %bytes, %flags, %at, %step, %end, %w, %m; .reg .u32 %i, %n, %t, %b, %h, %x, %y;\n"
    ".reg .u16 %s; .reg .pred %p;\n"
    "ld.param.u64 %data, [data]; ld.param.u64 %bytes, [bytes]; ld.param.u64 %flags, [flags];\n"
    "mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;\n"
    "mul.wide.u32 %at, %i, 8; mov.u32 %t, %nctaid.x; mul.lo.u32 %n, %n, %t; mul.wide.u32 %step, %n, 8;\n"
    "mov.u32 %b, 0;\n"
    "WORDS: add.u64 %end, %at, 8; setp.gt.u64 %p, %end, %bytes; @%p bra REST;\n"
    "add.u64 %w, %data, %at; ld.global.u64 %w, [%w]; and.b64 %m, %w, 0x7fffffffffffffff;\n"
    "setp.gt.u64 %p, %m, 0x7ff0000000000000; @%p or.b32 %b, %b, 8;\n"
    "setp.eq.u64 %p, %m, 0x7ff0000000000000; @%p or.b32 %b, %b, 128;\n"
    "mov.b64 {%x, %y}, %w;\n" SINGLE("%x") SINGLE(
        "%y") "add.u64 %at, %at, %step; bra WORDS;\n"
              // Less than eight bytes are left, of which the first thread takes care.
              "REST: setp.ne.u32 %p, %i, 0; @%p bra DONE;\n"
              "and.b64 %at, %bytes, 0xfffffffffffffff8; add.u64 %end, %at, 4; setp.gt.u64 %p, %end, "
              "%bytes; @%p bra LAST;\n"
              "add.u64 %w, %data, %at; ld.global.u32 %x, [%w];\n" SINGLE(
                  "%x") "mov.u64 %at, %end;\n"
                        "LAST: add.u64 %end, %at, 2; setp.gt.u64 %p, %end, %bytes; @%p bra DONE;\n"
                        "add.u64 %w, %data, %at; ld.global.u16 %s, [%w]; cvt.u32.u16 %x, %s;\n" HALF(
                            "%x", "0") "DONE: setp.eq.u32 %p, %b, 0; @%p ret;\n" TELL("1",
                                                                                      "0") TELL("2",
                                                                                                "1") TELL("4",
                                                                                                          "2")
                            TELL("8", "3") TELL("16", "4") TELL("32", "5") TELL("64", "6") TELL(
                                "128",
                                "7") "ld.param.u32 %h, [wanted]; and.b32 %h, %h, %b; setp.ne.u32 %p, %h, 0;\n"
                                     "ld.param.u64 %flags, [found]; @%p st.volatile.global.u8 [%flags], 1;\n"
                                     "ret;\n}\n"
                                     ".visible .entry replay_copy(.param .u64 data, .param .u64 bytes, "
                                     ".param .u64 found, .param .u64 to) {\n"
                                     ".reg .u64 %data, %bytes, %to, %at, %step, %end, %a, %w; .reg .u32 %i, "
                                     "%n, %t; .reg .u16 %s; .reg .pred %p;\n"
                                     "ld.param.u64 %a, [found]; ld.volatile.global.u8 %s, [%a]; setp.eq.u16 "
                                     "%p, %s, 0; @%p ret;\n"
                                     "ld.param.u64 %data, [data]; ld.param.u64 %bytes, [bytes]; ld.param.u64 "
                                     "%to, [to];\n"
                                     "mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; "
                                     "mad.lo.u32 %i, %i, %n, %t;\n"
                                     "mul.wide.u32 %at, %i, 8; mov.u32 %t, %nctaid.x; mul.lo.u32 %n, %n, %t; "
                                     "mul.wide.u32 %step, %n, 8;\n"
                                     "WORDS: add.u64 %end, %at, 8; setp.gt.u64 %p, %end, %bytes; @%p bra "
                                     "REST;\n"
                                     "add.u64 %a, %data, %at; ld.global.u64 %w, [%a]; add.u64 %a, %to, %at; "
                                     "st.global.u64 [%a], %w;\n"
                                     "add.u64 %at, %at, %step; bra WORDS;\n"
                                     "REST: setp.ne.u32 %p, %i, 0; @%p ret;\n"
                                     "and.b64 %at, %bytes, 0xfffffffffffffff8;\n"
                                     "BYTES: setp.ge.u64 %p, %at, %bytes; @%p ret;\n"
                                     "add.u64 %a, %data, %at; ld.global.u8 %s, [%a]; add.u64 %a, %to, %at; "
                                     "st.global.u8 [%a], %s;\n"
                                     "add.u64 %at, %at, 1; bra BYTES;\n}\n";

static ZERO_IN_CHILD uint64_t scanning, copying; // functions

void scans_begin(void) {
  uint64_t module = 0;
  scanning = copying = 0;
  if (selection.when.checks_on_device && ASK("cuModuleLoadData", word(&module), word(text)) == SUCCESS &&
      (ASK("cuModuleGetFunction", word(&copying), module, word("replay_copy")) != SUCCESS ||
       ASK("cuModuleGetFunction", word(&scanning), module, word("replay_nonfinite")) != SUCCESS))
    scanning = 0;
}

void scans_end(void) { scanning = 0; } // with the context

// An address that is not aligned, or a mapping that may be read no more, would be a fault of the
// application's context.
bool can_be_scanned(const struct range *range) {
  return scanning != 0 && range->kind == RANGE_DEVICE && range->physical == 0 && range->base % 8 == 0;
}

static int launch(uint64_t function, uint64_t bytes, struct stream_name stream, void **values) {
  enum { THREADS = 256, MOST_BLOCKS = 1024 };
  uint64_t blocks = (bytes / 8 + THREADS - 1) / THREADS;
  struct CUlaunchConfig config = {.gridDimX = blocks < 1             ? 1
                                              : blocks > MOST_BLOCKS ? MOST_BLOCKS
                                                                     : (uint32_t)blocks,
                                  .gridDimY = 1,
                                  .gridDimZ = 1,
                                  .blockDimX = THREADS,
                                  .blockDimY = 1,
                                  .blockDimZ = 1,
                                  .hStream = stream.handle};
  return stream.per_thread ? ASK("cuLaunchKernelEx_ptsz", word(&config), function, word(values), 0)
                           : ASK("cuLaunchKernelEx", word(&config), function, word(values), 0);
}

int scan_range(const struct range *range, struct stream_name stream, uint64_t flags, uint32_t wanted,
               uint64_t found) {
  uint64_t bytes = range->bytes, base = range->base;
  return launch(scanning, bytes, stream, (void *[]){&base, &bytes, &flags, &wanted, &found});
}

int copy_if(const struct range *range, struct stream_name stream, uint64_t found, uint64_t to) {
  uint64_t bytes = range->bytes, base = range->base;
  return launch(copying, bytes, stream, (void *[]){&base, &bytes, &found, &to});
}
