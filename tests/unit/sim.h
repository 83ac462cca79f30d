/* SPDX-License-Identifier: Apache-2.0 */
/* The pretended GPUs of tests/sim/ in a unit test. */
#ifndef CKV_TESTS_SIM_H
#define CKV_TESTS_SIM_H

#include "tests/sim/control.h"

/* Loads the libraries, so that whoever asks for libcuda.so.1 afterwards gets the pretended
 * one.  NULL, or why it cannot be. */
const char *test_sim_load(void);
/* A function of "libcuda.so.1" or another of them; NULL if it has none such. */
void *test_sim_symbol(const char *library, const char *name);

/* ckv_sim_NAME of control.h, once they are loaded. */
typedef struct test_sim_control {
#define CONTROL(result, name, arguments) result(*name) arguments;
    SIM_CONTROL
#undef CONTROL
} test_sim_control;
extern test_sim_control sim;

#endif
