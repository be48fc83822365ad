// libcuda.so.1 as the application finds it under capture: each function that has a wrapper is a jump to it. See
// stand_in.c.
//
// The loader fills a place of `stand_in_entries` with the shim's wrapper when it loads this library, before any code
// of the application can run; it leaves 0 where there is no shim.

// To the address at `entry`, with a place in front of it where indirect branches may land.
.macro JUMP entry
#if defined(__x86_64__)
  endbr64
  jmp *\entry(%rip)
#elif defined(__aarch64__)
  hint #34 // bti c
  adrp x16, \entry
  ldr x16, [x16, #:lo12:\entry]
  br x16
#else
#error "replay runs on x86-64 and aarch64"
#endif
.endm

.macro ENTRY name
  .pushsection .rodata.names, "a", %progbits
.Lname_of_\name:
  .asciz "\name"
  .popsection
  .pushsection .data.rel.entries, "aw", %progbits
  .weak replay_\name
.Lentry_of_\name:
  .quad replay_\name
  .quad .Lname_of_\name
  .popsection
  .globl \name
  .type \name, %function
  .p2align 4
\name:
  JUMP .Lentry_of_\name
  .size \name, . - \name
.endm

  .section .data.rel.entries, "aw", %progbits
  .p2align 3
  .globl stand_in_entries
  .hidden stand_in_entries
stand_in_entries:

  .text
  .globl stand_in_begin
  .hidden stand_in_begin
stand_in_begin:

#define SLOT(symbol, ...) ENTRY symbol
#include NAMES

  .globl stand_in_end
  .hidden stand_in_end
stand_in_end:

  .section .data.rel.entries, "aw", %progbits
  .globl stand_in_entries_end
  .hidden stand_in_entries_end
stand_in_entries_end:

  .section .note.GNU-stack, "", %progbits
