/* SPDX-License-Identifier: Apache-2.0 */
/* Dense cells in memory laid out in some way; see verify_place.h. */
#include "verify_place.h"

#include <stdlib.h>
#include <string.h>

bool verify_memory_new(struct verify_memory *m, size_t size, int32_t offset, unsigned char fill)
{
    memset(m, 0, sizeof *m);
    m->whole = size + (size_t)offset + 64 + 2 * VERIFY_RED;
    m->memory = malloc(m->whole);
    m->before = malloc(m->whole);
    if (m->memory == NULL || m->before == NULL)
        return false;
    memset(m->memory, fill, m->whole);
    m->data = m->memory + VERIFY_RED;
    m->data += (size_t)(-(uintptr_t)m->data & 63u) + (size_t)offset;
    return true;
}

bool verify_memory_place(struct verify_memory *m, const struct verify_place *place, size_t unit,
                         const int64_t extent[3], unsigned char fill)
{
    const struct arranged a = arrange(place->kind, (int64_t)unit, extent);

    if (!verify_memory_new(m, (size_t)a.bytes, (int32_t)a.offset + place->offset, fill))
        return false;
    m->data += a.start;
    m->unit = unit;
    for (int i = 0; i < 3; i++) {
        m->extent[i] = extent[i];
        m->stride[i] = a.stride[i];
    }
    return true;
}

void verify_memory_free(struct verify_memory *m)
{
    free(m->memory);
    free(m->before);
    memset(m, 0, sizeof *m);
}

static unsigned char *cell(const struct verify_memory *m, int64_t h, int64_t i, int64_t k)
{
    return m->data + h * m->stride[0] + i * m->stride[1] + k * m->stride[2];
}

void verify_memory_put(const struct verify_memory *m, const unsigned char *cells)
{
    for (int64_t h = 0; h < m->extent[0]; h++)
        for (int64_t i = 0; i < m->extent[1]; i++)
            for (int64_t k = 0; k < m->extent[2]; k++, cells += m->unit)
                memcpy(cell(m, h, i, k), cells, m->unit);
}

void verify_memory_get(const struct verify_memory *m, int64_t tokens, unsigned char *cells)
{
    for (int64_t h = 0; h < m->extent[0]; h++)
        for (int64_t i = 0; i < tokens; i++)
            for (int64_t k = 0; k < m->extent[2]; k++, cells += m->unit)
                memcpy(cells, cell(m, h, i, k), m->unit);
}

void verify_memory_remember(struct verify_memory *m)
{
    memcpy(m->before, m->memory, m->whole);
}

void verify_memory_restore(struct verify_memory *m, int64_t tokens)
{
    for (int64_t h = 0; h < m->extent[0]; h++)
        for (int64_t i = 0; i < tokens; i++)
            for (int64_t k = 0; k < m->extent[2]; k++) {
                unsigned char *at = cell(m, h, i, k);

                memcpy(at, m->before + (at - m->memory), m->unit);
            }
}

bool verify_memory_unchanged(const struct verify_memory *m)
{
    return memcmp(m->before, m->memory, m->whole) == 0;
}

ckv_tensor verify_memory_view(const struct verify_memory *m, ckv_dtype dtype, int rank)
{
    ckv_tensor view;
    int first = 3 - rank;

    if (rank == 2)
        ckv_tensor_init_2d(&view, dtype, m->data, m->extent[1], m->extent[2]);
    else
        ckv_tensor_init_3d(&view, dtype, m->data, m->extent[0], m->extent[1], m->extent[2]);
    for (int i = 0; i < rank; i++)
        view.stride[i] = m->stride[first + i];
    return view;
}

bool verify_settle(struct verify_problem *p, enum verify_input input)
{
    struct verify_memory m;
    int64_t extent[3];
    bool good;

    if (p->place[input].kind < ARRANGE_APART || p->cells[input] == NULL)
        return true;
    verify_extents(p, input, extent);
    good = verify_memory_place(&m, &p->place[input], ckv_dtype_size(p->dtype[input]), extent, 0);
    if (good) {
        verify_memory_put(&m, p->cells[input]);
        verify_memory_get(&m, extent[1], p->cells[input]);
    }
    verify_memory_free(&m);
    return good;
}
