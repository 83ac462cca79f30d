/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the lines of tests/golden/reference.txt as this build computes them.  Needs
 * no cmocka, so that it can be built for any machine and by any compiler; how, is in
 * tests/cpu-elsewhere.sh. */
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
