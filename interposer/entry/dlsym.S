// The exported, unversioned dlsym. It answers names that have a wrapper; for everything else it jumps to the real dlsym
// with the stack as it was, because the loader looks at the return address to know who asks: RTLD_NEXT and RTLD_DEFAULT
// mean something else for every caller.
//
// struct { uint64_t answered; void *value; } choose_symbol(void *handle, const char *name);

#if defined(__x86_64__)

  .text
  .globl dlsym
  .type dlsym, @function
  .p2align 4
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call choose_symbol
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jz 1f
  movq %rdx, %rax
  ret
1:
  jmp *real_dlsym(%rip)
  .cfi_endproc
  .size dlsym, . - dlsym
  .section .note.GNU-stack, "", @progbits

#elif defined(__aarch64__)

  .text
  .globl dlsym
  .type dlsym, %function
  .p2align 4
dlsym:
  .cfi_startproc
  hint #34 // bti c
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  mov x29, sp
  stp x0, x1, [sp, #16]
  bl choose_symbol
  mov x9, x0
  mov x10, x1
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  cbz x9, 1f
  mov x0, x10
  ret
1:
  adrp x16, real_dlsym
  ldr x16, [x16, #:lo12:real_dlsym]
  br x16
  .cfi_endproc
  .size dlsym, . - dlsym
  .section .note.GNU-stack, "", %progbits

#else
#error "replay runs on x86-64 and aarch64"
#endif
