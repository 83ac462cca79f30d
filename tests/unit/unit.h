/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a cmocka program, in the order that cmocka needs. */
#ifndef CKV_TESTS_UNIT_H
#define CKV_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

#define assert_ok(call) assert_int_equal(call, CKV_OK)

/* The detail of the last error must name `part`. */
#define assert_detail(part)                                                                                            \
    do {                                                                                                               \
        if (strstr(ckv_error_detail(), part) == NULL)                                                                  \
            fail_msg("detail \"%s\" lacks \"%s\"", ckv_error_detail(), part);                                          \
    } while (0)

#define assert_fails(call, status, part)                                                                               \
    do {                                                                                                               \
        assert_int_equal(call, status);                                                                                \
        assert_detail(part);                                                                                           \
    } while (0)

/* Leaves the test, with a reason that tests/cmocka-tap.sh puts beside it. */
#define skip_because(reason)                                                                                           \
    do {                                                                                                               \
        printf("# skip: %s\n", reason);                                                                                \
        skip();                                                                                                        \
    } while (0)

#endif
