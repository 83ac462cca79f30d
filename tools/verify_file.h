/* SPDX-License-Identifier: Apache-2.0 */
/* A problem in a safetensors file, with all that is needed to run it again. */
#ifndef CKV_TOOLS_VERIFY_FILE_H
#define CKV_TOOLS_VERIFY_FILE_H

#include "verify.h"

/* What is to be run on what. */
struct verify_case {
    enum verify_stage stage;
    char backend[16], device[16], variant[64];
    char parameters[512];         /* of the context that showed it */
    char origin[160];             /* seed and number of the problem it was made of */
    char difference[VERIFY_TEXT]; /* as it was seen */
};

/* Both return false after one error line; what was read is freed in any case. */
bool verify_file_write(const char *path, const struct verify_problem *p, const struct verify_case *found);
bool verify_file_read(const char *path, struct verify_problem *p, struct verify_case *found);

#endif
