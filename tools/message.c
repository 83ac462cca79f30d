/* SPDX-License-Identifier: Apache-2.0 */
/* One-line messages on standard error. */
#include "message.h"

#include "progress.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 0))) static void print(const char *prefix, const char *format, va_list arguments)
{
    char text[8192];

    vsnprintf(text, sizeof text, format, arguments);
    for (char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)at[0];
        unsigned char next = (unsigned char)at[1];

        if (byte < 0x20 || byte == 0x7f) {
            at[0] = '?';
        } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) { /* C1 controls in UTF-8 */
            at[0] = '?';
            at[1] = '?';
        }
    }
    progress_wipe();
    fprintf(stderr, "ckv: %s%s\n", prefix, text);
}

void message_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print("", format, arguments);
    va_end(arguments);
}

void message_warning(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print("warning: ", format, arguments);
    va_end(arguments);
}
