/* SPDX-License-Identifier: Apache-2.0 */
/* The tunables of the CPU backend, by number. */
#ifndef CKV_BACKENDS_CPU_TUNABLES_H
#define CKV_BACKENDS_CPU_TUNABLES_H

#include "cpu.h"

enum {
    CKV_CPU_ISA,
    CKV_CPU_NORM_BLOCK,
    CKV_CPU_SELECT_SAMPLE,
    CKV_CPU_BOUND_BLOCK,
    CKV_CPU_SKIP_FACTOR,
    CKV_CPU_TUNABLES
};

extern const ckv_tunable ckv_cpu_tunables[CKV_CPU_TUNABLES];

int ckv_cpu_tunable_allowed(const ckv_context *context, int32_t index, int32_t value);
int32_t ckv_cpu_tunable_model(const ckv_context *context, const ckv_problem *problem, int32_t index);

/* Seconds of a stage with the plan's parameters, by counted work (model.c). */
double ckv_cpu_estimate(const ckv_plan *plan, ckv_stage stage);

/* What CKV_CPU_ISA says; 0 where it names no instruction set that this machine has. */
int ckv_cpu_read_isa(ckv_parameters *given);

/* In that case, what is wrong with it and what there is. */
void ckv_cpu_refusal(char *reason, size_t size);

#endif
