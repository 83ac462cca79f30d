/* SPDX-License-Identifier: Apache-2.0 */
/* ckv verify: random problems on every backend, every bit against the reference. */
#include "command.h"

#include "message.h"
#include "progress.h"
#include "verify_gate.h"
#include "verify_report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A report that cannot be written must not look like a difference. */
static int written(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    message_error("standard output: cannot be written: %s", strerror(errno));
    return EXIT_VERIFY_ERROR;
}

static int run(struct verify_gate *gate)
{
    const struct verify_options *options = &gate->options;
    const struct verify_wanted wanted = {options->backends, options->backend_count};
    FILE *junit = NULL;
    int status;

    if (options->junit != NULL) { /* before the work, so that none is lost */
        junit = fopen(options->junit, "w");
        if (junit == NULL) {
            message_error("--junit: '%s': cannot be opened for writing: %s", options->junit, strerror(errno));
            return EXIT_VERIFY_ERROR;
        }
    }
    progress_share(0, "opening devices");
    status = verify_targets_find(&gate->all, &wanted);
    if (status == EXIT_DONE) {
        status = verify_gate_run(gate);
        if (options->json)
            status = verify_report_json(gate) ? status : EXIT_VERIFY_ERROR;
        else
            verify_report_table(gate);
    }
    progress_wipe();
    if (junit != NULL) {
        bool good = verify_report_junit(gate, junit, status);

        if (fclose(junit) != 0 || !good) {
            message_error("--junit: '%s': cannot be written", options->junit);
            status = EXIT_VERIFY_ERROR;
        }
    }
    return written(status);
}

static int replay(struct verify_gate *gate)
{
    struct verify_options *options = &gate->options;
    char name[40];
    const char *recorded[1] = {name};
    struct verify_wanted wanted = {options->backends, options->backend_count};
    int status;

    if (!verify_file_read(options->replay, &gate->problem, &gate->found))
        return EXIT_VERIFY_ERROR;
    snprintf(name, sizeof name, "%s%s%s", gate->found.backend, gate->found.device[0] == '\0' ? "" : ":",
             gate->found.device);
    if (wanted.count == 0)
        wanted = (struct verify_wanted){recorded, 1};
    status = verify_targets_find(&gate->all, &wanted);
    if (status == EXIT_DONE)
        status = verify_gate_replay(gate);
    return written(status);
}

int command_verify(int argc, char **argv)
{
    struct verify_gate gate;
    int status;

    memset(&gate, 0, sizeof gate);
    if (!verify_options_parse(argc, argv, &gate.options))
        return EXIT_USAGE;
    status = gate.options.replay == NULL ? run(&gate) : replay(&gate);
    verify_free(&gate.problem);
    verify_targets_free(&gate.all);
    if (gate.digest != NULL)
        verify_digest_free(gate.digest);
    return status;
}
