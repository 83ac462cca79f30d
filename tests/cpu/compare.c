/* SPDX-License-Identifier: Apache-2.0 */
/* compare ISA [STEP]: every STEP-th of the hostile problems on that instruction set of the CPU
 * backend against the reference; exits with 1 on a difference, and 2 without that instruction set.  Needs no
 * cmocka, as tests/golden/print.c: for machines that are emulated. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/hostile.h"
#include "tests/unit/outcome.h"

int main(int argc, char **argv)
{
    int different = 0, step = argc == 3 ? atoi(argv[2]) : 1;
    for (int number = 0; (argc == 2 || argc == 3) && step > 0 && number < hostile_problems; number += step) {
        char name[HOSTILE_NAME], text[TEST_DIFFERENCE];
        test_outcome want, got;
        test_problem p;
        hostile_build(&p, number, name);
        if (test_solve_on(&p, "ref", NULL, 0, &want) != CKV_OK) {
            fprintf(stderr, "compare: %s: %s\n", name, ckv_error_detail());
            return 2;
        }
        hostile_build(&p, number, name);
        if (test_solve_on(&p, "cpu", argv[1], 1, &got) != CKV_OK) {
            fprintf(stderr, "compare: %s: %s\n", name, ckv_error_detail());
            return 2;
        }
        if (!test_same(&want, &got, text)) {
            printf("%s: %s\n", name, text);
            different = 1;
        }
    }
    return argc == 2 || argc == 3 ? different : 2;
}
