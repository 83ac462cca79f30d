/* SPDX-License-Identifier: Apache-2.0 */
/* What ckv verify prints when it is done. */
#ifndef CKV_TOOLS_VERIFY_REPORT_H
#define CKV_TOOLS_VERIFY_REPORT_H

#include "verify_gate.h"

#include <stdio.h>

/* Of the problems themselves: a change of any gives other digests. */
#define VERIFY_RECIPE 1

void verify_report_table(const struct verify_gate *gate);

/* False after one error line. */
bool verify_report_json(const struct verify_gate *gate);

/* JUnit's XML: a suite for each target, a case for each stage.  False if it cannot be written. */
bool verify_report_junit(const struct verify_gate *gate, FILE *stream, int status);

struct verify_total {
    uint64_t bits, differences, errors;
};
struct verify_total verify_report_total(const struct verify_gate *gate);

/* The command that shows the difference again; "" where nothing was saved. */
#define VERIFY_COMMAND 500
void verify_report_command(const struct verify_gate *gate, char text[VERIFY_COMMAND]);

#endif
