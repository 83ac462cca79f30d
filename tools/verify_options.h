/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of ckv verify. */
#ifndef CKV_TOOLS_VERIFY_OPTIONS_H
#define CKV_TOOLS_VERIFY_OPTIONS_H

#include "verify_target.h"

#define VERIFY_BACKENDS 32 /* names that --backend may have */

struct verify_options {
    uint64_t seed;
    uint64_t problems; /* 0: as many as the time allows */
    double minutes;    /* 0: as long as the problems take */
    const char *backends[VERIFY_BACKENDS];
    size_t backend_count;
    const char *output, *junit, *replay; /* NULL: not given */
    struct verify_plant plant;
    const char *plant_text; /* as given */
    bool json;
};

/* False after one error line: the usage is wrong. */
bool verify_options_parse(int argc, char **argv, struct verify_options *options);

#endif
