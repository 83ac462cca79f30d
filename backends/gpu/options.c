/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the vendors' compilers as a list. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>

#include "build.h"

int ckv_gpu_split_options(char *options, const char **list, int count, int room)
{
    char *rest = options;
    for (char *word = strtok_r(options, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (count == room)
            return -1;
        list[count++] = word;
    }
    return count;
}
