/* SPDX-License-Identifier: Apache-2.0 */
/* See values.h. */
#include "values.h"

#include "message.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

error_t values_wrong(const char *option, const char *value, const char *wanted)
{
    message_error("%s: '%s': wanted %s", option, value, wanted);
    return EINVAL;
}

error_t values_integer(const char *option, const char *text, int64_t least, int64_t most, bool units, int64_t *value)
{
    char wanted[120], *end = NULL;
    int64_t read = 0;
    bool good = isdigit((unsigned char)text[0]);

    errno = 0;
    if (good)
        read = strtoll(text, &end, 10);
    good = good && errno == 0 && read <= most;
    if (good && units && (*end == 'K' || *end == 'k')) {
        read *= 1024;
        end++;
    }
    if (good && *end == '\0' && read >= least && read <= most) {
        *value = read;
        return 0;
    }
    snprintf(wanted, sizeof wanted, "an integer from %" PRId64 " to %" PRId64 "%s", least, most,
             units ? ", K standing for 1024" : "");
    return values_wrong(option, text, wanted);
}

error_t values_list(const char *option, char *text, const size_t *count, size_t most,
                    error_t (*add)(void *of, const char *entry), void *of)
{
    char *at = text;

    for (;;) {
        char *comma = strchr(at, ',');
        error_t status;

        if (count != NULL && *count == most) {
            message_error("%s: more than %zu entries, wanted at most as many", option, most);
            return EINVAL;
        }
        if (comma != NULL)
            *comma = '\0';
        status = at[0] == '\0' ? values_wrong(option, at, "a list without empty entries") : add(of, at);
        if (status != 0 || comma == NULL)
            return status;
        at = comma + 1;
    }
}

error_t values_backend(const char *text, struct options *run)
{
    char *colon;

    free(run->backend);
    run->device = NULL;
    run->backend_text = text;
    run->backend = strdup(text);
    if (run->backend == NULL) {
        message_error("--backend: '%s': out of memory", text);
        return EINVAL;
    }
    colon = strchr(run->backend, ':');
    if (colon != NULL) {
        *colon = '\0';
        run->device = colon + 1;
    }
    if (run->backend[0] == '\0' || (colon != NULL && colon[1] == '\0'))
        return values_wrong("--backend", text, "NAME or NAME:DEVICE, such as auto, ref or cpu:0");
    return 0;
}

bool values_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    switch (argp_parse(argp, argc, argv, 0, NULL, input)) {
    case 0:
        return true;
    case EINVAL: /* a parser here printed why */
        return false;
    default:
        message_error("out of memory");
        return false;
    }
}
