/* SPDX-License-Identifier: Apache-2.0 */
/* ckv verify: random problems on every backend, every bit against the reference. */
#include "command.h"

#include "message.h"
#include "progress.h"
#include "signals.h"
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

/* A planted error that nothing could notice must not look like a gate that noticed none. */
static int check_plant(const struct verify_gate *gate)
{
    const struct verify_options *options = &gate->options;

    if (options->plant.backend == NULL)
        return EXIT_DONE;
    for (size_t i = 0; i < gate->all.count; i++)
        if (strcmp(gate->all.targets[i].backend, options->plant.backend) == 0)
            return EXIT_DONE;
    message_error("--plant: '%s': nothing is run on %s, wanted a backend that is", options->plant_text,
                  options->plant.backend);
    return EXIT_USAGE;
}

/* Before the work, so that none is lost; what is there stays until there is a new report. */
static bool can_write(const char *path)
{
    FILE *file = fopen(path, "a");

    if (file != NULL && fclose(file) == 0)
        return true;
    message_error("--junit: '%s': cannot be opened for writing: %s", path, strerror(errno));
    return false;
}

static bool write_junit(const struct verify_gate *gate, int status)
{
    FILE *file = fopen(gate->options.junit, "w");
    bool good = file != NULL && verify_report_junit(gate, file, status);

    if (file != NULL && fclose(file) == 0 && good)
        return true;
    message_error("--junit: '%s': cannot be written", gate->options.junit);
    return false;
}

static int run(struct verify_gate *gate)
{
    const struct verify_options *options = &gate->options;
    const struct verify_wanted wanted = {options->backends, options->backend_count, NULL};
    int status;

    if (options->junit != NULL && !can_write(options->junit))
        return EXIT_VERIFY_ERROR;
    signals_note();
    progress_share(0, "opening devices");
    status = verify_targets_find(&gate->all, &wanted);
    if (status == EXIT_DONE)
        status = check_plant(gate);
    if (status == EXIT_DONE) {
        status = verify_gate_run(gate);
        if (options->json)
            status = verify_report_json(gate) ? status : EXIT_VERIFY_ERROR;
        else
            verify_report_table(gate);
    }
    progress_wipe();
    if (options->junit != NULL && !write_junit(gate, status))
        status = EXIT_VERIFY_ERROR;
    return written(status);
}

static int replay(struct verify_gate *gate)
{
    struct verify_options *options = &gate->options;
    char name[40];
    const char *recorded[1] = {name};
    struct verify_wanted wanted = {options->backends, options->backend_count, NULL};
    int status;

    if (!verify_file_read(options->replay, &gate->problem, &gate->found))
        return EXIT_VERIFY_ERROR;
    snprintf(name, sizeof name, "%s%s%s", gate->found.backend, gate->found.device[0] == '\0' ? "" : ":",
             gate->found.device);
    if (wanted.count == 0)
        wanted = (struct verify_wanted){recorded, 1, options->replay};
    status = verify_targets_find(&gate->all, &wanted);
    if (status == EXIT_DONE)
        status = check_plant(gate);
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
