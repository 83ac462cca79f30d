/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, and what those that run the library share. */
#ifndef CKV_TOOLS_COMMAND_H
#define CKV_TOOLS_COMMAND_H

#include "layers.h"
#include "options.h"

#include <ckv/ckv.h>

#include <stddef.h>
#include <stdint.h>

enum { EXIT_DONE = 0, EXIT_INPUT = 1, EXIT_USAGE = 2 };

/* Each runs `ckv NAME ...`, argv[0] being the name to show, and returns the exit
 * status. */
int command_evict(int argc, char **argv);
int command_select(int argc, char **argv);
int command_info(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_verify(int argc, char **argv);

/* The context that the options ask for; says nothing. */
ckv_status command_open(const struct options *options, ckv_context **context);
int command_tune(int argc, char **argv);
int command_tune_worker(int argc, char **argv); /* what command_tune starts */

/* NULL after one error line. */
ckv_context *command_context(const struct options *options);

/* What a layer's plan is, and one selection's memory. */
struct selecting {
    ckv_plan *plan;
    ckv_plan_info info;
    ckv_selection selection;
};

/* Plans `layer` under `policy`, but with the layer's scale.  False after one error
 * line; destroy in any case. */
bool command_plan(const ckv_context *context, const struct options *options, const struct layer *layer,
                  const ckv_policy *policy, struct selecting *selecting);

/* Adds the memory of a selection, with stages. */
bool command_allocate(const struct options *options, const struct layer *layer, struct selecting *selecting);

/* Also accepts a zeroed one. */
void command_destroy(struct selecting *selecting);

/* calloc that takes 0, and prints one error line when it returns NULL. */
void *command_memory(const struct options *options, const struct layer *layer, size_t count, size_t size);

/* Prints what the library last found wrong, and is false. */
bool command_library_error(const struct options *options, const struct layer *layer);

/* Seconds from some fixed point. */
double command_clock(void);

#endif
