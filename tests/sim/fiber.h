/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: stacks of their own that one thread runs in turn.  On x86-64 the switch is
 * eighteen instructions, since a launch makes millions; elsewhere it is ucontext's.
 */
#ifndef CKV_TESTS_SIM_FIBER_H
#define CKV_TESTS_SIM_FIBER_H

#include <stddef.h>

typedef struct ckv_fiber {
    void *context; /* x86-64: the stack pointer; else a ucontext_t */
    char *stack;
    size_t size;
    void *fake;   /* AddressSanitizer's */
    void *thread; /* ThreadSanitizer's */
} ckv_fiber;

/* A fiber that will run start() when it is switched to; start never returns, it
 * switches away for good.  The stack is the caller's. */
void ckv_fiber_prepare(ckv_fiber *fiber, char *stack, size_t size, void (*start)(void));
/* The thread itself, as a place to come back to. */
void ckv_fiber_adopt(ckv_fiber *fiber);
void ckv_fiber_switch(ckv_fiber *from, ckv_fiber *to);
/* First thing on a fiber's own stack. */
void ckv_fiber_arrived(ckv_fiber *self);

#endif
