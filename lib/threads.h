/* SPDX-License-Identifier: Apache-2.0 */
/* A number of threads as the environment says it. */
#ifndef CKV_LIB_THREADS_H
#define CKV_LIB_THREADS_H

#include <string.h>

#include "sizes.h"

#define CKV_THREADS_VARIABLE "CKV_NUM_THREADS"

/* 1 with the number, which stays as it is where nothing is said; 0 where that is none from 1 to
 * CKV_LIMIT_THREADS, in digits and nothing else. */
static inline int ckv_threads_read(const char *text, int32_t *threads)
{
    int32_t number = 0;
    if (text == NULL || text[0] == '\0')
        return 1;
    for (; *text >= '0' && *text <= '9' && number <= CKV_LIMIT_THREADS; text++)
        number = 10 * number + (*text - '0');
    if (*text != '\0' || number < 1 || number > CKV_LIMIT_THREADS)
        return 0;
    *threads = number;
    return 1;
}

#endif
