/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the instruction sets of the CPU backend that this machine can run. */
#include <stdio.h>

#include "backends/cpu/kernels.h"

int main(void)
{
    for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++)
        if (ckv_cpu_kernels_list[i]->usable())
            puts(ckv_cpu_kernels_list[i]->isa);
    return 0;
}
