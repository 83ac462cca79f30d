/* SPDX-License-Identifier: Apache-2.0 */
/* Names in lists and in whichever case. */
#ifndef CKV_LIB_NAMES_H
#define CKV_LIB_NAMES_H

#include <stddef.h>
#include <string.h>

/* 1: the list, separated by commas, names it.  NULL is an empty list. */
static inline int ckv_names_hold(const char *list, const char *name)
{
    const size_t length = strlen(name);
    while (list != NULL && *list != '\0') {
        size_t item;
        list += strspn(list, ", ");
        item = strcspn(list, ", ");
        if (item == length && strncmp(list, name, length) == 0)
            return 1;
        list += item;
    }
    return 0;
}

/* As in ASCII, whatever the locale. */
static inline int ckv_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* 1: `text` begins with `start`, in whichever case. */
static inline int ckv_name_starts(const char *text, const char *start)
{
    while (*start != '\0' && ckv_lower(*text) == ckv_lower(*start)) {
        text++;
        start++;
    }
    return *start == '\0';
}

static inline int ckv_name_is(const char *text, const char *name)
{
    return strlen(text) == strlen(name) && ckv_name_starts(text, name);
}

static inline int ckv_name_has(const char *text, const char *part)
{
    for (;; text++) {
        if (ckv_name_starts(text, part))
            return 1;
        if (*text == '\0')
            return 0;
    }
}

#endif
