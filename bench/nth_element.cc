// SPDX-License-Identifier: Apache-2.0
// std::nth_element and std::sort for C: the one file in C++, for the selection's peer.
#include "nth_element.h"

#include <algorithm>

extern "C" void nth_element_best(struct scored *entries, int64_t n, int64_t count)
{
    if (count <= 0 || count >= n)
        return;
    std::nth_element(entries, entries + count, entries + n, [](const scored &a, const scored &b) {
        return a.score > b.score || (a.score == b.score && a.position < b.position);
    });
}

extern "C" void sort_positions(int32_t *positions, int64_t count)
{
    std::sort(positions, positions + count);
}
