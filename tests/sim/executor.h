/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kernels of the dialect without a device.  Every work-item is a fiber; which of
 * those that can go on is next, and in what order groups run, is drawn from a seed, so
 * that whatever rests on an order that nobody promised gives other results with another
 * seed.  Memory that a group shares is full of noise when the group starts.
 *
 * A file of kernels is compiled with dialect/host.h and linked with the executor into one
 * program or one shared object: the executor fills the memory of the object it is in.
 */
#ifndef CKV_TESTS_SIM_EXECUTOR_H
#define CKV_TESTS_SIM_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>

#define CKV_SIM_MAX_GROUP 1024

typedef struct ckv_sim_grid {
    uint32_t groups[3], group_size;
    uint32_t lanes; /* work-items of a warp or wave */
    uint64_t seed;
} ckv_sim_grid;

/* Calls item(argument) once for every work-item.  0, or -1 with the reason in `message`:
 * a group whose items do not all reach the same barrier or the same collective, or that
 * wrote behind an array it shares. */
int ckv_sim_execute(void (*item)(void *argument), void *argument, const ckv_sim_grid *grid, char *message, size_t size);

/* Of the item that asks. */
int32_t ckv_sim_local_id(void);
int32_t ckv_sim_group_id(int32_t dimension);
uint32_t ckv_sim_lanes(void);
void ckv_sim_barrier(int line);
/* An array that a group shares, of which nothing is written yet; no item may write to the
 * `guard` bytes behind it.  Each item that comes to it says so. */
void ckv_sim_share(void *memory, size_t bytes, size_t guard, const char *name);

/* What all lanes of a warp do together: each brings `data`, the last to arrive runs
 * `function` over all of them by lane number, and then they go on.  A warp is `lanes`
 * consecutive items. */
typedef void ckv_sim_function(void *const *data, int lanes);
void ckv_sim_collective(int lanes, void *data, int bytes, ckv_sim_function *function);

#endif
