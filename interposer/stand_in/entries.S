// libcuda.so.1 as the application finds it under capture: each function that has a wrapper is a jump to it. See
// stand_in.c.
//
// The loader fills a place of `stand_in_entries` with the shim's wrapper when it loads this library, before any code
// of the application can run; it leaves 0 where there is no shim.

#if defined(__x86_64__)

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
  endbr64
  jmp *.Lentry_of_\name(%rip)
  .size \name, . - \name
.endm

#elif defined(__aarch64__)

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
  hint #34 // bti c
  adrp x16, .Lentry_of_\name
  ldr x16, [x16, #:lo12:.Lentry_of_\name]
  br x16
  .size \name, . - \name
.endm

#else
#error "replay runs on x86-64 and aarch64"
#endif

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
