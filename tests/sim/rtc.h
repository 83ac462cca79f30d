/* SPDX-License-Identifier: Apache-2.0 */
/* What NVRTC and hipRTC are pretended to do: an image is this word, the architecture, a
 * new line and the defines. */
#ifndef CKV_TESTS_SIM_RTC_H
#define CKV_TESTS_SIM_RTC_H

#include <stddef.h>

#pragma GCC visibility push(default) /* of libckv_sim.so, for the libraries over it */

#define SIM_IMAGE "pretended image for "

typedef struct sim_program {
    char *source, *image;
    char log[256];
} sim_program;

int sim_program_create(const char *source, sim_program **program);
int sim_program_delete(sim_program **program);
/* 0, 6 (a compilation that failed, as both compilers number it), or 4 for no program. */
int sim_program_compile(sim_program *program, const char *arch_option, int count, const char *const *options);

#pragma GCC visibility pop

#endif
