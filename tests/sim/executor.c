/* SPDX-License-Identifier: Apache-2.0 */
/* See executor.h. */
#define _GNU_SOURCE
#include "executor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fiber.h"
#include "noise.h"

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define SIM_VALGRIND 1
#endif
#endif
#define STACK ((size_t)128 << 10)
#define PAGE ((size_t)4096)

#define ARRAYS 16 /* of one kernel */
#define GUARD_BYTE 0xa5

enum state { READY, AT_BARRIER, IN_COLLECTIVE, FINISHED };

typedef struct work_item {
    ckv_fiber fiber;
    enum state state;
    int line;                   /* of the barrier */
    ckv_sim_function *function; /* of the collective */
    void *data;
    int lanes, bytes;
} work_item;

typedef struct shared_array {
    unsigned char *memory;
    size_t bytes, guard;
    const char *name;
} shared_array;

/* One launch at a time: the kernels' shared memory is static. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct executor {
    work_item items[CKV_SIM_MAX_GROUP];
    char *stacks;
    ckv_fiber home; /* the scheduler's */
    uint32_t ready[CKV_SIM_MAX_GROUP], ready_count;
    uint32_t current, finished, size, lanes, group[3];
    uint64_t random;
    shared_array arrays[ARRAYS];
    int array_count; /* of the group that runs */
    void (*item)(void *argument);
    void *argument;
} x;

static uint32_t below(uint64_t *state, uint32_t end)
{
    return (uint32_t)((ckv_sim_next(state) >> 33) % end);
}

static void shuffle(uint64_t *state, uint32_t *list, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = below(state, i), other = list[i - 1];
        list[i - 1] = list[j];
        list[j] = other;
    }
}

/* ---------------------------------------------------------------- asked by kernels */

int32_t ckv_sim_local_id(void)
{
    return (int32_t)x.current;
}

int32_t ckv_sim_group_id(int32_t dimension)
{
    return (int32_t)x.group[dimension];
}

uint32_t ckv_sim_lanes(void)
{
    return x.lanes;
}

static void pause_here(enum state state)
{
    work_item *self = &x.items[x.current];
    self->state = state;
    ckv_fiber_switch(&self->fiber, &x.home);
}

void ckv_sim_barrier(int line)
{
    x.items[x.current].line = line;
    pause_here(AT_BARRIER);
}

/* The group's first item to come here sets them up, before any has written. */
void ckv_sim_share(void *memory, size_t bytes, size_t guard, const char *name)
{
    for (int i = 0; i < x.array_count; i++)
        if (x.arrays[i].memory == memory)
            return;
    if (x.array_count == ARRAYS)
        abort();
    x.arrays[x.array_count++] = (shared_array){memory, bytes, guard, name};
    ckv_sim_forget(memory, bytes, ckv_sim_next(&x.random));
    memset((unsigned char *)memory + bytes, GUARD_BYTE, guard);
}

static int check_guards(char *message, size_t size)
{
    for (int i = 0; i < x.array_count; i++) {
        const unsigned char *guard = x.arrays[i].memory + x.arrays[i].bytes;
        size_t at = 0;
        if (guard[0] == GUARD_BYTE && memcmp(guard, guard + 1, x.arrays[i].guard - 1) == 0)
            continue;
        while (guard[at] == GUARD_BYTE)
            at++;
        snprintf(message, size, "group %u,%u wrote %zu bytes behind the end of %s", (unsigned)x.group[0],
                 (unsigned)x.group[1], at, x.arrays[i].name);
        return -1;
    }
    return 0;
}

static void make_ready(uint32_t i)
{
    x.items[i].state = READY;
    x.ready[x.ready_count++] = i;
}

void ckv_sim_collective(int lanes, void *data, int bytes, ckv_sim_function *function)
{
    work_item *self = &x.items[x.current];
    const uint32_t count = (uint32_t)lanes, first = x.current / count * count;
    void *all[64] = {NULL};
    if (lanes > 64 || CKV_SIM_MAX_GROUP % lanes != 0)
        abort();
    self->function = function;
    self->data = data;
    self->lanes = lanes;
    self->bytes = bytes;
    for (uint32_t i = first; i < first + count; i++) {
        const work_item *other = &x.items[i];
        const int there = i == x.current || (i < x.size && other->state == IN_COLLECTIVE);
        if (!there || other->function != function || other->lanes != lanes || other->bytes != bytes) {
            pause_here(IN_COLLECTIVE);
            return;
        }
        all[i - first] = other->data;
    }
    function(all, lanes);
    for (uint32_t i = first; i < first + count; i++)
        if (i != x.current)
            make_ready(i);
}

/* ---------------------------------------------------------------- running */

static void start(void)
{
    work_item *self = &x.items[x.current];
    ckv_fiber_arrived(&self->fiber);
    x.item(x.argument);
    x.finished++;
    pause_here(FINISHED);
    abort(); /* nobody switches to a finished item */
}

static const char *whereabouts(const work_item *item, char text[64])
{
    if (item->state == FINISHED)
        return "has finished";
    if (item->state == IN_COLLECTIVE)
        return "waits for its warp in a matrix instruction";
    snprintf(text, 64, "waits at the barrier of line %d", item->line);
    return text;
}

/* An item that cannot go on because of another, and that other; 0 where there is none. */
static int find_pair(const work_item **one, const work_item **other)
{
    for (uint32_t i = 0; i < x.size; i++) {
        const work_item *a = &x.items[i];
        if (a->state != IN_COLLECTIVE)
            continue;
        const uint32_t first = i / (uint32_t)a->lanes * (uint32_t)a->lanes;
        for (uint32_t j = first; j < first + (uint32_t)a->lanes && j < x.size; j++) {
            const work_item *b = &x.items[j];
            *one = a;
            *other = b;
            if (b->state != IN_COLLECTIVE || b->function != a->function || b->bytes != a->bytes)
                return 1;
        }
        *other = a; /* a warp that is not whole */
        return 1;
    }
    for (uint32_t i = 1; i < x.size; i++) {
        *one = &x.items[0];
        *other = &x.items[i];
        if ((*other)->state != (*one)->state || (*other)->line != (*one)->line)
            return 1;
    }
    return 0;
}

/* Nobody is ready: opens the barrier at which all stand, or says why not. */
static int open_barrier(char *message, size_t size)
{
    const work_item *one = NULL, *other = NULL;
    char a[64], b[64];
    if (find_pair(&one, &other)) {
        snprintf(message, size, "group %u,%u diverges: item %u %s, item %u %s", (unsigned)x.group[0],
                 (unsigned)x.group[1], (unsigned)(one - x.items), whereabouts(one, a), (unsigned)(other - x.items),
                 whereabouts(other, b));
        return -1;
    }
    for (uint32_t i = 0; i < x.size; i++)
        make_ready(i);
    return 0;
}

static int run_group(char *message, size_t size)
{
    x.ready_count = x.finished = 0;
    x.array_count = 0;
    for (uint32_t i = 0; i < x.size; i++) {
        ckv_fiber_prepare(&x.items[i].fiber, x.stacks + i * (STACK + PAGE) + PAGE, STACK, start);
        x.items[i].line = 0;
        make_ready(i);
    }
    while (x.finished < x.size) {
        if (x.ready_count == 0 && open_barrier(message, size) != 0)
            return -1;
        const uint32_t pick = below(&x.random, x.ready_count);
        x.current = x.ready[pick];
        x.ready[pick] = x.ready[--x.ready_count];
        ckv_fiber_switch(&x.home, &x.items[x.current].fiber);
    }
    return check_guards(message, size);
}

static int make_stacks(void)
{
    const size_t whole = CKV_SIM_MAX_GROUP * (STACK + PAGE);
    if (x.stacks != NULL)
        return 0;
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    x.stacks = memory;
    for (size_t i = 0; i < CKV_SIM_MAX_GROUP; i++) { /* below each stack, a page that nobody may touch */
        mprotect(x.stacks + i * (STACK + PAGE), PAGE, PROT_NONE);
#ifdef SIM_VALGRIND
        (void)VALGRIND_STACK_REGISTER(x.stacks + i * (STACK + PAGE) + PAGE, x.stacks + (i + 1) * (STACK + PAGE));
#endif
    }
    return 0;
}

static int run_groups(const ckv_sim_grid *grid, char *message, size_t size)
{
    const uint64_t count = (uint64_t)grid->groups[0] * grid->groups[1] * grid->groups[2];
    if (grid->group_size == 0 || grid->group_size > CKV_SIM_MAX_GROUP || count == 0 || count > UINT32_MAX ||
        make_stacks() != 0) {
        snprintf(message, size, "no such launch: %llu groups of %u", (unsigned long long)count,
                 (unsigned)grid->group_size);
        return -1;
    }
    uint32_t *order = malloc(count * sizeof *order);
    if (order == NULL) {
        snprintf(message, size, "out of memory");
        return -1;
    }
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    x.random = ckv_sim_spread(grid->seed);
    x.size = grid->group_size;
    x.lanes = grid->lanes;
    shuffle(&x.random, order, (uint32_t)count);
    ckv_fiber_adopt(&x.home);
    int status = 0;
    for (uint64_t i = 0; i < count && status == 0; i++) {
        x.group[0] = order[i] % grid->groups[0];
        x.group[1] = order[i] / grid->groups[0] % grid->groups[1];
        x.group[2] = order[i] / grid->groups[0] / grid->groups[1];
        status = run_group(message, size);
    }
    free(order);
    return status;
}

int ckv_sim_execute(void (*item)(void *argument), void *argument, const ckv_sim_grid *grid, char *message, size_t size)
{
    pthread_mutex_lock(&lock);
    x.item = item;
    x.argument = argument;
    const int status = run_groups(grid, message, size);
    pthread_mutex_unlock(&lock);
    return status;
}
