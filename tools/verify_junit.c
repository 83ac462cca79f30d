/* SPDX-License-Identifier: Apache-2.0 */
/* The report of ckv verify as JUnit's XML, which CI systems show. */
#include "signals.h"
#include "verify_report.h"

#include <inttypes.h>
#include <string.h>

/* Text of an attribute or element; what XML cannot hold is a question mark. */
static void put_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;

        switch (*text) {
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '&':
            fputs("&amp;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        case '\n':
            fputc('\n', stream);
            break;
        default:
            fputc(byte < 0x20 || byte > 0x7e ? '?' : byte, stream);
        }
    }
}

static void put_attribute(FILE *stream, const char *name, const char *text)
{
    fprintf(stream, " %s=\"", name);
    put_text(stream, text);
    fputc('"', stream);
}

/* What is wrong with the stage of a target that ended the run. */
static void put_finding(const struct verify_gate *gate, FILE *stream)
{
    const char *kind = gate->failed ? "error" : "failure";
    char command[VERIFY_COMMAND];

    verify_report_command(gate, command);
    fprintf(stream, "      <%s type=\"%s\"", kind, gate->failed ? "status" : "difference");
    put_attribute(stream, "message", gate->found.difference);
    fputc('>', stream);
    put_text(stream, gate->found.origin);
    if (command[0] != '\0') {
        fputs("\nreplay: ", stream);
        put_text(stream, command);
    }
    fprintf(stream, "</%s>\n", kind);
}

static void put_target(const struct verify_gate *gate, const struct verify_target *target, FILE *stream)
{
    char name[VERIFY_NAME];
    bool culprit = target == gate->culprit;
    int stages = 0;

    for (int stage = 0; stage < VERIFY_STAGES; stage++)
        stages += (target->stages & 1u << stage) != 0;

    verify_target_text(target, name, sizeof name);
    fputs("  <testsuite", stream);
    put_attribute(stream, "name", name);
    fprintf(stream, " tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"0\" time=\"%.3f\">\n", stages,
            culprit && !gate->failed, culprit && gate->failed, target->seconds);
    fputs("    <properties>\n", stream);
    fputs("      <property name=\"device\"", stream);
    put_attribute(stream, "value", target->name);
    fprintf(stream, "/>\n      <property name=\"left_out\" value=\"%" PRIu64 "\"/>\n    </properties>\n",
            target->left_out);
    for (int stage = 0; stage < VERIFY_STAGES; stage++) {
        const struct verify_count *count = &target->count[stage];

        if ((target->stages & 1u << stage) == 0)
            continue;
        fputs("    <testcase classname=\"ckv.verify.", stream);
        put_text(stream, name);
        fprintf(stream, "\" name=\"%s\" time=\"%.3f\">\n", verify_stages[stage], target->seconds / stages);
        if (culprit && (int)gate->found.stage == stage)
            put_finding(gate, stream);
        fprintf(stream, "      <system-out>%" PRIu64 " problems, %" PRIu64 " bits</system-out>\n", count->problems,
                count->bits);
        fputs("    </testcase>\n", stream);
    }
    fputs("  </testsuite>\n", stream);
}

static void put_skip(const struct verify_skip *skip, FILE *stream)
{
    fputs("  <testsuite", stream);
    put_attribute(stream, "name", skip->backend);
    fputs(" tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\" time=\"0\">\n    <testcase classname=\"ckv.verify.",
          stream);
    put_text(stream, skip->backend);
    fputs("\" name=\"device", stream);
    put_text(stream, skip->device[0] == '\0' ? "" : " ");
    put_text(stream, skip->device);
    put_text(stream, skip->variant[0] == '\0' ? "" : " ");
    put_text(stream, skip->variant);
    fputs("\" time=\"0\">\n      <skipped", stream);
    put_attribute(stream, "message", skip->reason);
    fputs("/>\n    </testcase>\n  </testsuite>\n", stream);
}

/* A run that ended by an error of no target: out of memory, a device that cannot be opened, a signal. */
static void put_trouble(const struct verify_gate *gate, FILE *stream)
{
    char text[100] = "the run ended early: see the job's log";

    if (gate->signal != 0)
        snprintf(text, sizeof text, "interrupted by %s after %" PRIu64 " problems", signals_name(gate->signal),
                 gate->problems);
    fputs("  <testsuite name=\"run\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"0\">\n"
          "    <testcase classname=\"ckv.verify\" name=\"run\" time=\"0\">\n      <error",
          stream);
    put_attribute(stream, "type", gate->signal != 0 ? "interrupted" : "run");
    put_attribute(stream, "message", text);
    fputs("/>\n    </testcase>\n  </testsuite>\n", stream);
}

bool verify_report_junit(const struct verify_gate *gate, FILE *stream, int status)
{
    const bool failed = gate->culprit != NULL && gate->failed, differs = gate->culprit != NULL && !gate->failed;
    const bool trouble = gate->culprit == NULL && status != 0;
    char digest[VERIFY_DIGEST] = "";
    size_t stages = 0;

    for (size_t i = 0; i < gate->all.count; i++)
        for (int stage = 0; stage < VERIFY_STAGES; stage++)
            stages += (gate->all.targets[i].stages & 1u << stage) != 0;

    if (gate->digest != NULL && gate->culprit == NULL && (!trouble || gate->signal != 0))
        verify_digest_text(gate->digest, digest);
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"ckv verify\"", stream);
    fprintf(stream, " tests=\"%zu\" failures=\"%d\" errors=\"%d\" skipped=\"%zu\" time=\"%.3f\">\n",
            stages + gate->all.skip_count + trouble, differs, failed || trouble, gate->all.skip_count, gate->seconds);
    for (size_t i = 0; i < gate->all.count; i++)
        put_target(gate, &gate->all.targets[i], stream);
    for (size_t i = 0; i < gate->all.skip_count; i++)
        put_skip(&gate->all.skips[i], stream);
    if (trouble)
        put_trouble(gate, stream);
    if (digest[0] != '\0')
        fprintf(stream,
                "  <testsuite name=\"reference\" tests=\"0\" failures=\"0\" errors=\"0\" skipped=\"0\" time=\"0\">\n"
                "    <properties>\n      <property name=\"digest\" value=\"xxh128:%s recipe %d seed %" PRIu64
                " problems %" PRIu64 "\"/>\n    </properties>\n  </testsuite>\n",
                digest, VERIFY_RECIPE, gate->options.seed, gate->problems);
    fputs("</testsuites>\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}
