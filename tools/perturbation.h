/* SPDX-License-Identifier: Apache-2.0 */
/* What an eviction costs: attention mass kept, and change of the attention output. */
#ifndef CKV_TOOLS_PERTURBATION_H
#define CKV_TOOLS_PERTURBATION_H

#include "layers.h"

#include <ckv/ckv.h>

#include <stdbool.h>

/* Over a layer's query heads. */
struct spread {
    double mean, least, most;
};

/* Of the last query, in double precision over the sanitised inputs. */
struct perturbation {
    struct spread stage1_mass;    /* attention that falls on forced and stage-1 entries (Assumption 3.4) */
    struct spread criticalkv;     /* L1 change of the output after W_O (Definition 3.1) for a kept set */
    struct spread attention_only; /* and for another one */
};

/* `kept` has stages; both selections are full ones of this layer.  False when out
 * of memory.  Memory: O(tokens). */
bool perturbation_measure(const struct layer *layer, const ckv_selection *kept, const ckv_selection *attention_only,
                          struct perturbation *result);

/* Multiply-adds that this takes, for a progress bar. */
double perturbation_work(const struct layer *layer);

#endif
