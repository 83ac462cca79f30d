/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: what the parsers of several commands share. */
#ifndef CKV_TOOLS_VALUES_H
#define CKV_TOOLS_VALUES_H

#include "options.h"

#include <argp.h>

/* What a parser returns to stop argp: the line has been printed. */
error_t values_wrong(const char *option, const char *value, const char *wanted);

/* From `least` to `most`; `units`: K may stand for 1024. */
error_t values_integer(const char *option, const char *text, int64_t least, int64_t most, bool units, int64_t *value);

/* NAME or NAME:DEVICE. */
error_t values_backend(const char *text, struct options *run);

/* A comma-separated list, which is cut up; add(of, entry) takes each.  `count` is where it
 * keeps the length, which stays at most `most`, or NULL. */
error_t values_list(const char *option, char *text, const size_t *count, size_t most,
                    error_t (*add)(void *of, const char *entry), void *of);

/* Parses the words after `ckv`.  False after one error line. */
bool values_parse(const struct argp *argp, int argc, char **argv, void *input);

#endif
