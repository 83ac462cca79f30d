/* SPDX-License-Identifier: Apache-2.0 */
/* The ckv command: finds what the first word asks for. */
#include "command.h"

#include "message.h"
#include "output.h"
#include "signals.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: ckv COMMAND [OPTION...]\n"
    "Evict KV-cache entries of LLM inference by output perturbation (CriticalKV).\n"
    "\n"
    "  ckv evict IN.safetensors -o OUT.safetensors    kept entries of captured layers, and what they cost\n"
    "  ckv select IN.safetensors -o OUT.safetensors   kept entries from given attention and norm\n"
    "  ckv info                                       version, build, backends and devices\n"
    "  ckv bench                                      how fast this machine runs the stages\n"
    "  ckv tune                                       find what is fastest on this device, and keep it\n"
    "  ckv verify                                     every backend against the reference, bit for bit\n"
    "\n"
    "  ckv COMMAND --help    the options of a command, with their defaults\n"
    "  ckv --help            this text\n"
    "  ckv --version         the version\n"
    "\n"
    "Exit status: 0 done, 1 input that cannot be processed, 2 wrong usage.  Manual: ckv(1).\n";

static const struct {
    const char *name;
    char *shown; /* in usage lines */
    int (*run)(int argc, char **argv);
} commands[] = {
    {"evict", (char[]){"ckv evict"}, command_evict},
    {"select", (char[]){"ckv select"}, command_select},
    {"info", (char[]){"ckv info"}, command_info},
    {"bench", (char[]){"ckv bench"}, command_bench},
    {"tune", (char[]){"ckv tune"}, command_tune},
    {"verify", (char[]){"ckv verify"}, command_verify},
    {"tune-worker", (char[]){"ckv tune-worker"}, command_tune_worker},
};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "ckv %s\n", ckv_version());
}

/* A file opened later must not become standard output or error by taking its
 * number.  The other direction, so that using one still fails. */
static void hold_standard_streams(void)
{
    for (int number = 0; number <= 2; number++) {
        if (fcntl(number, F_GETFD) == -1 && errno == EBADF)
            (void)!open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY);
    }
}

/* A full disk under standard output is an error too. */
static int finish(int status)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_DONE) {
        message_error("standard output: cannot be written: %s", strerror(errno));
        return EXIT_INPUT;
    }
    return status;
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    argp_program_version_hook = print_version;
    argp_err_exit_status = EXIT_USAGE;
    atexit(output_remove_unfinished); /* a library that ends the process, such as OpenMP's, leaves nothing behind */
    if (argc < 2) {
        message_error("no command, wanted evict, select, info, bench, tune or verify; see ckv --help");
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "-?") == 0) {
        fputs(help, stdout);
        return finish(EXIT_DONE);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        print_version(stdout, NULL);
        return finish(EXIT_DONE);
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            signals_install();
            argv[1] = commands[i].shown;
            return finish(commands[i].run(argc - 1, argv + 1));
        }
    }
    message_error("'%s': no such command, wanted evict, select, info, bench, tune or verify; see ckv --help", argv[1]);
    return EXIT_USAGE;
}
