/* SPDX-License-Identifier: Apache-2.0 */
/* See fiber.h. */
#define _GNU_SOURCE
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#endif

/* The sanitizers follow stacks; these are their words for a change of stack. */
#ifdef FIBER_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
void __asan_unpoison_memory_region(const volatile void *address, size_t size);
static _Thread_local ckv_fiber *came_from;
#endif
#ifdef FIBER_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

static void made(ckv_fiber *fiber)
{
    fiber->fake = NULL;
#ifdef FIBER_ASAN
    __asan_unpoison_memory_region(fiber->stack, fiber->size); /* frames that were never left */
#endif
#ifdef FIBER_TSAN
    if (fiber->thread != NULL)
        __tsan_destroy_fiber(fiber->thread);
    fiber->thread = __tsan_create_fiber(0);
#endif
}

static void adopted(ckv_fiber *fiber)
{
#ifdef FIBER_TSAN
    fiber->thread = __tsan_get_current_fiber();
#endif
    (void)fiber;
}

static void leaving(ckv_fiber *from, ckv_fiber *to)
{
#ifdef FIBER_ASAN
    came_from = from;
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->size);
#endif
#ifdef FIBER_TSAN
    __tsan_switch_to_fiber(to->thread, 0);
#endif
    (void)from;
    (void)to;
}

static void arrived(ckv_fiber *self)
{
#ifdef FIBER_ASAN
    const void *bottom = NULL;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(self->fake, &bottom, &size);
    if (came_from != NULL && came_from->stack == NULL) { /* the thread, whose stack nobody told us */
        came_from->stack = (char *)(uintptr_t)bottom;
        came_from->size = size;
    }
#endif
    (void)self;
}

#if defined(__x86_64__) && defined(__ELF__) && !defined(__ILP32__) && !defined(CKV_SIM_UCONTEXT)

/* void ckv_fiber_swap(void **save, void *resume): System V keeps these six registers. */
void ckv_fiber_swap(void **save, void *resume) __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".globl ckv_fiber_swap\n"
        ".hidden ckv_fiber_swap\n"
        ".type ckv_fiber_swap, @function\n"
        "ckv_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size ckv_fiber_swap, .-ckv_fiber_swap\n");

void ckv_fiber_prepare(ckv_fiber *fiber, char *stack, size_t size, void (*start)(void))
{
    /* Six registers, where to return to, and a return address for `start` that keeps
     * the stack aligned as after a call and ends a debugger's backtrace. */
    uint64_t *top = (uint64_t *)(void *)(stack + (size & ~(size_t)15));
    *--top = 0;
    *--top = 0;
    top[0] = (uint64_t)(uintptr_t)start;
    for (int i = 0; i < 6; i++)
        *--top = 0;
    fiber->context = top;
    fiber->stack = stack;
    fiber->size = size;
    made(fiber);
}

void ckv_fiber_adopt(ckv_fiber *fiber)
{
    memset(fiber, 0, sizeof *fiber);
    adopted(fiber);
}

void ckv_fiber_switch(ckv_fiber *from, ckv_fiber *to)
{
    leaving(from, to);
    ckv_fiber_swap(&from->context, to->context);
    arrived(from);
}

#else
#include <ucontext.h>

static ucontext_t *context_of(ckv_fiber *fiber)
{
    if (fiber->context == NULL) {
        fiber->context = calloc(1, sizeof(ucontext_t));
        if (fiber->context == NULL)
            abort();
    }
    return fiber->context;
}

void ckv_fiber_prepare(ckv_fiber *fiber, char *stack, size_t size, void (*start)(void))
{
    ucontext_t *context = context_of(fiber);
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = size;
    context->uc_link = NULL;
    makecontext(context, start, 0);
    fiber->stack = stack;
    fiber->size = size;
    made(fiber);
}

void ckv_fiber_adopt(ckv_fiber *fiber)
{
    void *context = fiber->context;
    memset(fiber, 0, sizeof *fiber);
    fiber->context = context;
    adopted(fiber);
}

void ckv_fiber_switch(ckv_fiber *from, ckv_fiber *to)
{
    leaving(from, to);
    swapcontext(context_of(from), context_of(to));
    arrived(from);
}
#endif

void ckv_fiber_arrived(ckv_fiber *self)
{
    arrived(self);
}
