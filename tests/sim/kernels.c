/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the GPU backend as C, see kernels.h. */
#include "backends/gpu/dialect/host.h"

#include "kernels.h"
#include "matrix.h"

/* The size of a kernel's groups is kept, to hold kernels.def against it. */
#undef KERNEL
#define KERNEL(name, group)                                                                                            \
    enum { name##_group = (group) };                                                                                   \
    static void name

#include "backends/gpu/kernels/all.h"

typedef struct invocation {
    void *buffer[SIM_BUFFERS];
    ckv_params parameters;
} invocation;

#define POINTERS_1(b) (b)[0]
#define POINTERS_2(b) POINTERS_1(b), (b)[1]
#define POINTERS_3(b) POINTERS_2(b), (b)[2]
#define POINTERS_4(b) POINTERS_3(b), (b)[3]
#define POINTERS_5(b) POINTERS_4(b), (b)[4]
#define POINTERS_6(b) POINTERS_5(b), (b)[5]
#define POINTERS_7(b) POINTERS_6(b), (b)[6]
#define POINTERS_8(b) POINTERS_7(b), (b)[7]

#define CKV_KERNEL(name, buffers, group, route, local)                                                                        \
    _Static_assert(name##_group == (group), "kernels.def has another size of groups");                                 \
    static void call_##name(void *argument)                                                                            \
    {                                                                                                                  \
        invocation *i = argument;                                                                                      \
        name(POINTERS_##buffers(i->buffer), i->parameters);                                                            \
    }
#include "backends/gpu/kernels.def"
#undef CKV_KERNEL

static const ckv_sim_kernel list[] = {
#define CKV_KERNEL(name, buffers, group, route, local) {#name, buffers, group},
#include "backends/gpu/kernels.def"
#undef CKV_KERNEL
    {NULL, 0, 0},
};

static void (*const calls[])(void *) = {
#define CKV_KERNEL(name, buffers, group, route, local) call_##name,
#include "backends/gpu/kernels.def"
#undef CKV_KERNEL
};

static int run(int number, void *const *buffers, const void *parameters, const ckv_sim_grid *grid, char *message,
               size_t size)
{
    invocation i;
    memset(&i, 0, sizeof i);
    memcpy(i.buffer, buffers, (size_t)list[number].buffers * sizeof *buffers);
    memcpy(&i.parameters, parameters, sizeof i.parameters);
    return ckv_sim_execute(calls[number], &i, grid, message, size);
}

__attribute__((visibility("default"))) const ckv_sim_kernels_table *ckv_sim_kernels(void)
{
    static const ckv_sim_kernels_table table = {list, sizeof(ckv_params), run, ckv_sim_matrix_issued};
    return &table;
}
