/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the lines of tests/golden/reference.txt as this build computes them.  Needs
 * no cmocka, so that it can be built for any machine and by any compiler:
 *   cc -std=c11 -ffp-contract=off -I. -Iinclude -Ilib tests/golden/print.c \
 *      tests/unit/golden.c tests/unit/support.c lib/[a-z]*.c backends/ref/[a-z]*.c -lm */
#include <stdio.h>

#include "tests/unit/golden.h"

int main(void)
{
    char line[GOLDEN_LINE];
    for (int i = 0; i < golden_lines; i++) {
        golden_line(i, line);
        puts(line);
    }
    return 0;
}
