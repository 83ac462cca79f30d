/* SPDX-License-Identifier: Apache-2.0 */
/* Names in lists and in whichever case. */
#ifndef CKV_LIB_NAMES_H
#define CKV_LIB_NAMES_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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

/* 1: the text is a device's index, all digits, or part of its name. */
static inline int ckv_name_is_device(const char *text, long index, const char *name)
{
    if (text[strspn(text, "0123456789")] != '\0')
        return ckv_name_has(name, text);
    return strlen(text + strspn(text, "0")) <= 9 && strtol(text, NULL, 10) == index;
}

/* The first item from `list` on, separated by commas or blanks, with its length; NULL: none is left. */
static inline const char *ckv_names_next(const char *list, size_t *length)
{
    if (list == NULL)
        return NULL;
    list += strspn(list, ", ");
    *length = strcspn(list, ", ");
    return *length == 0 ? NULL : list;
}

/* 1: the list names it, in whichever case.  NULL is an empty list. */
static inline int ckv_names_hold(const char *list, const char *name)
{
    size_t length;
    for (; (list = ckv_names_next(list, &length)) != NULL; list += length)
        if (length == strlen(name) && ckv_name_starts(list, name))
            return 1;
    return 0;
}

#endif
