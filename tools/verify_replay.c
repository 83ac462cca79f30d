/* SPDX-License-Identifier: Apache-2.0 */
/* ckv verify --replay: one saved problem, where it differed or somewhere else. */
#include "verify_gate.h"

#include "command.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

/* One line for a target; the exit status. */
static int replay_on(struct verify_gate *gate, struct verify_target *target)
{
    const char *stage = verify_stages[gate->found.stage];
    char text[VERIFY_TEXT], where[VERIFY_NAME];
    bool same;

    verify_target_text(target, where, sizeof where);
    if (!verify_gate_compare(gate, target, gate->found.stage, &gate->problem, &same, text)) {
        message_error("%s: %s: %s: %s", gate->options.replay, where, stage, text);
        return EXIT_VERIFY_ERROR;
    }
    printf("%s: %s: %s\n", where, stage, same ? "equal to the reference" : text);
    return same ? EXIT_DONE : EXIT_VERIFY_DIFFERS;
}

int verify_gate_replay(struct verify_gate *gate)
{
    int status = EXIT_DONE;
    bool ran = false;

    for (size_t i = 0; i < gate->all.count; i++) {
        struct verify_target *target = &gate->all.targets[i];
        int own;

        /* With --backend, all that it has; else the very context. */
        if (gate->options.backend_count == 0) {
            if (strcmp(target->variant, gate->found.variant) != 0)
                continue;
            for (int at = 0; at < VERIFY_CONTEXTS; at++)
                snprintf(target->parameters[at], VERIFY_PARAMETERS, "%s", gate->found.parameters);
        }
        ran = true;
        own = replay_on(gate, target);
        status = own > status ? own : status;
    }
    if (ran)
        return status;
    message_error("%s: __metadata__: variant '%s' of backend '%s': this machine has none such; --backend says where to "
                  "run it instead",
                  gate->options.replay, gate->found.variant, gate->found.backend);
    return EXIT_VERIFY_ERROR;
}
