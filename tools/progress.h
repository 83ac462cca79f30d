/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on standard error, for terminals and long work only. */
#ifndef CKV_TOOLS_PROGRESS_H
#define CKV_TOOLS_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/* `work` is the whole work in any unit of roughly one multiply-add each. */
void progress_begin(double work, size_t layers);

/* The next piece of work: what it is, and its share of the whole. */
void progress_stage(size_t index, int32_t layer, const char *stage, double work);

void progress_end(void);

/* One line in place of the bar, for work whose length is not known: shown at once, on a
 * terminal only, until the next one or progress_wipe. */
void progress_note(const char *text);

/* A bar for a share of the whole that the caller knows, below 0: none, and a text behind it; on a
 * terminal only, a few times a second at most. */
void progress_share(double share, const char *text);

/* Takes the bar off the screen; it comes back with the next stage.  Callable
 * from a signal handler. */
void progress_wipe(void);

#endif
