/* SPDX-License-Identifier: Apache-2.0 */
/* What the figures were measured on and with. */
#define _DEFAULT_SOURCE
#include "machine.h"

#include "lib/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* "model name : ..." of Linux on x86; elsewhere there may be none. */
static void read_processor(char *text, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(text, size, "unknown processor");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file != NULL)
        fclose(file);
}

void machine_describe(struct machine *machine)
{
    struct utsname names;
    struct tm day;
    time_t now = time(NULL);

    memset(machine, 0, sizeof *machine);
    read_processor(machine->processor, sizeof machine->processor);
    if (uname(&names) == 0)
        snprintf(machine->system, sizeof machine->system, "%.60s %.60s", names.sysname, names.machine);
    machine->compiler = CKV_COMPILER_TEXT;
    machine->processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&machine->load, 1) != 1)
        machine->load = 0;
    if (gmtime_r(&now, &day) != NULL)
        strftime(machine->date, sizeof machine->date, "%Y-%m-%d", &day);
}
