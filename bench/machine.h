/* SPDX-License-Identifier: Apache-2.0 */
/* What the figures were measured on and with. */
#ifndef CKV_BENCH_MACHINE_H
#define CKV_BENCH_MACHINE_H

struct machine {
    char processor[128];
    char system[160]; /* kernel and architecture */
    const char *compiler;
    char date[16]; /* 2026-01-31 */
    int processors;
    double load; /* average of the last minute, as the run began: other work; 0 where unknown */
};

void machine_describe(struct machine *machine);

#endif
