/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ckv verify. */
#include "signals.h"
#include "verify_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct verify_total verify_report_total(const struct verify_gate *gate)
{
    struct verify_total total = {0, 0, 0};

    for (size_t i = 0; i < gate->all.count; i++)
        for (int stage = 0; stage < VERIFY_STAGES; stage++) {
            total.bits += gate->all.targets[i].count[stage].bits;
            total.differences += gate->all.targets[i].count[stage].differences;
            total.errors += gate->all.targets[i].count[stage].errors;
        }
    return total;
}

/* A word for a shell. */
static void quote(const char *word, char *text, size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:,+-";
    size_t at = 0;

    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        snprintf(text, size, "%s", word);
        return;
    }
    text[at++] = '\'';
    for (; *word != '\0' && at + 6 < size; word++) {
        if (*word == '\'')
            at += (size_t)snprintf(text + at, size - at, "'\\''");
        else
            text[at++] = *word;
    }
    text[at++] = '\'';
    text[at] = '\0';
}

void verify_report_command(const struct verify_gate *gate, char text[VERIFY_COMMAND])
{
    char path[400];

    text[0] = '\0';
    if (gate->path[0] == '\0')
        return;
    quote(gate->path, path, sizeof path);
    snprintf(text, VERIFY_COMMAND, "ckv verify --replay %s%s%s", path,
             gate->options.plant.backend == NULL ? "" : " --plant ",
             gate->options.plant.backend == NULL ? "" : gate->options.plant_text);
}

/* 1234567 as 1,234,567. */
static const char *grouped(uint64_t number, char text[32])
{
    char plain[24];
    int length = snprintf(plain, sizeof plain, "%" PRIu64, number), at = 0;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = plain[i];
    }
    text[at] = '\0';
    return text;
}

static void print_difference(const struct verify_gate *gate)
{
    const int64_t *axis = gate->problem.axis;
    char where[VERIFY_NAME], command[VERIFY_COMMAND];

    if (gate->culprit == NULL)
        return;
    verify_target_text(gate->culprit, where, sizeof where);
    verify_report_command(gate, command);
    printf("\n%s  %s: %s: %s\n", gate->failed ? "error      " : "difference ", where, verify_stages[gate->found.stage],
           gate->found.difference);
    printf("problem      %s, after %" PRId64 " tries to make it smaller: KV heads %" PRId64 ", group %" PRId64
           ", tokens %" PRId64 ", queries %" PRId64 ", head_dim %" PRId64 ", value_dim %" PRId64 ", hidden %" PRId64
           "\n",
           gate->found.origin, gate->tries, axis[VERIFY_KV_HEADS], axis[VERIFY_GROUP], axis[VERIFY_TOKENS],
           axis[VERIFY_QUERIES], axis[VERIFY_HEAD_DIM], axis[VERIFY_VALUE_DIM], axis[VERIFY_HIDDEN]);
    if (command[0] != '\0')
        printf("replay       %s\n", command);
}

void verify_report_table(const struct verify_gate *gate)
{
    struct verify_total total = verify_report_total(gate);
    char digest[VERIFY_DIGEST], number[32];

    printf("%-8s %-6s %-24s %-8s %9s %9s %18s %10s\n", "backend", "device", "variant", "stage", "problems", "left out",
           "bits", "mismatches");
    for (size_t i = 0; i < gate->all.count; i++) {
        const struct verify_target *target = &gate->all.targets[i];

        for (int stage = 0; stage < VERIFY_STAGES; stage++) {
            const struct verify_count *count = &target->count[stage];

            if ((target->stages & 1u << stage) == 0)
                continue;
            printf("%-8s %-6s %-24s %-8s %9" PRIu64 " %9" PRIu64 " %18s %10" PRIu64 "%s\n", target->backend,
                   target->device[0] == '\0' ? "-" : target->device, target->variant[0] == '\0' ? "-" : target->variant,
                   verify_stages[stage], count->problems, target->left_out, grouped(count->bits, number),
                   count->differences, count->errors > 0 ? " and an error" : "");
        }
    }
    for (size_t i = 0; i < gate->all.skip_count; i++)
        printf("%s%-8s %-6s %-24s not run: %s\n", i == 0 ? "\n" : "", gate->all.skips[i].backend,
               gate->all.skips[i].device[0] == '\0' ? "-" : gate->all.skips[i].device,
               gate->all.skips[i].variant[0] == '\0' ? "-" : gate->all.skips[i].variant, gate->all.skips[i].reason);
    print_difference(gate);
    if (gate->signal != 0)
        printf("\ninterrupted by %s\n", signals_name(gate->signal));
    printf("\n%" PRIu64 " problems in %.1f s: %s bits compared, %" PRIu64 " mismatches\n", gate->problems,
           gate->seconds, grouped(total.bits, number), total.differences);
    if (gate->digest != NULL && gate->culprit == NULL && !gate->broken) {
        verify_digest_text(gate->digest, digest);
        printf("digest xxh128:%s recipe %d seed %" PRIu64 " problems %" PRIu64 "\n", digest, VERIFY_RECIPE,
               gate->options.seed, gate->problems);
    }
}
