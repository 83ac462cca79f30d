/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object of kernels: the GPU backend's text compiled as C for one set of
 * defines, with an executor of its own. */
#ifndef CKV_TESTS_SIM_KERNELS_H
#define CKV_TESTS_SIM_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "executor.h"

#define SIM_BUFFERS 8

typedef struct ckv_sim_kernel {
    const char *name;
    int buffers; /* pointers before the parameters */
    uint32_t group;
} ckv_sim_kernel;

/* What ckv_sim_kernels(), the one symbol of such an object, gives. */
typedef struct ckv_sim_kernels_table {
    const ckv_sim_kernel *list; /* ends with a NULL name */
    size_t parameter_bytes;
    /* Calls list[number] for the grid; 0, or -1 with the reason. */
    int (*run)(int number, void *const *buffers, const void *parameters, const ckv_sim_grid *grid, char *message,
               size_t size);
    int64_t (*issued)(const char *name); /* matrix.h */
} ckv_sim_kernels_table;

const ckv_sim_kernels_table *ckv_sim_kernels(void);

#endif
