/* SPDX-License-Identifier: Apache-2.0 */
/* ckv info: version, build, backends and devices, which is chosen and why others are not,
 * tuning. */
#include "command.h"

#include "info_tuning.h"
#include "lib/compiler.h"
#include "lib/names.h"
#include "message.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#elif defined(__riscv)
#define MACHINE "riscv"
#elif defined(__i386__)
#define MACHINE "i386"
#elif defined(__powerpc64__)
#define MACHINE "powerpc64"
#else
#define MACHINE "unknown"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

#ifdef __OPTIMIZE__
#define OPTIMISED true
#else
#define OPTIMISED false
#endif

static bool row(const ckv_context *context, int32_t index, ckv_device_info *info)
{
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    if (ckv_device_query(context, index, info) == CKV_OK)
        return true;
    message_error("%s", ckv_error_detail());
    return false;
}

/* A name in CKV_DISABLE that is nobody's may be that of a module of another machine, so that the library
 * passes it over; or it is misspelt. */
static void warn_of_disabled(const ckv_context *context)
{
    size_t length;

    for (const char *at = getenv("CKV_DISABLE"); (at = ckv_names_next(at, &length)) != NULL; at += length) {
        char name[64], known[300] = "";
        bool found = false;

        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        for (int32_t i = 0; i < ckv_device_count(context); i++) {
            ckv_device_info info = {.struct_size = sizeof info};

            if (ckv_device_query(context, i, &info) != CKV_OK || ckv_name_is(info.backend, "ref"))
                continue;
            found = found || ckv_name_is(info.backend, name);
            if (!ckv_names_hold(known, info.backend))
                snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", known[0] == '\0' ? "" : ", ",
                         info.backend);
        }
        if (!found)
            message_warning("CKV_DISABLE: '%s': %s, wanted some of: %s", name,
                            ckv_name_is(name, "ref") ? "cannot be switched off" : "no such backend here", known);
    }
}

/* "auto" where nobody asked for a backend or a device. */
static const char *chosen_by(const struct options *options)
{
    static const char *const variables[] = {"CKV_BACKEND", "CKV_DEVICE"};

    if (options->backend_text != NULL)
        return "--backend";
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);

        if (text != NULL && text[0] != '\0')
            return variables[i];
    }
    return "auto";
}

/* `context` is NULL where what was asked for cannot be had, for the reason `error`. */
static bool print_table(const ckv_context *context, const struct options *options, const char *error)
{
    printf("ckv        %s\n", ckv_version());
    printf("compiler   %s\n", CKV_COMPILER_TEXT);
    printf("build      %s, %s%s\n\n", MACHINE, OPTIMISED ? "optimised" : "not optimised",
           SANITIZED ? ", address sanitizer" : "");
    printf("%-8s %6s  %-16s %s\n", "backend", "device", "usable", "what, or why not");
    for (int32_t i = 0; i < ckv_device_count(context); i++) {
        ckv_device_info info;
        char device[16] = "-", usable[32];

        if (!row(context, i, &info))
            return false;
        if (info.device >= 0)
            snprintf(device, sizeof device, "%d", (int)info.device);
        snprintf(usable, sizeof usable, "%s%s%s", info.available ? "yes" : "no", info.selected ? ", " : "",
                 info.selected ? chosen_by(options) : "");
        printf("%-8s %6s  %-16s %s", info.backend, device, usable, info.available ? info.name : info.reason);
        /* The CPU's device and its variant are one: the instruction set. */
        if (info.selected && strcmp(info.variant, info.name) != 0)
            printf(" (%s)", info.variant);
        putchar('\n');
    }
    if (context == NULL)
        printf("\nnothing chosen: %s\n", error);
    return context == NULL || info_print_tuning(context);
}

static json_t *build_object(void)
{
    json_t *object = json_object();

    json_object_set_new(object, "compiler", json_string(CKV_COMPILER_TEXT));
    json_object_set_new(object, "machine", json_string(MACHINE));
    json_object_set_new(object, "optimised", json_boolean(OPTIMISED));
    json_object_set_new(object, "sanitized", json_boolean(SANITIZED));
    return object;
}

static json_t *row_object(const ckv_device_info *info)
{
    json_t *object = json_object();

    json_object_set_new(object, "backend", json_string(info->backend));
    json_object_set_new(object, "device", info->device < 0 ? json_null() : json_integer(info->device));
    json_object_set_new(object, "name", json_string(info->name));
    json_object_set_new(object, "available", json_boolean(info->available));
    json_object_set_new(object, "selected", json_boolean(info->selected));
    json_object_set_new(object, "variant", info->selected ? json_string(info->variant) : json_null());
    json_object_set_new(object, "reason", json_string(info->reason));
    return object;
}

static bool print_json(const ckv_context *context, const struct options *options, const char *error)
{
    json_t *object = json_object(), *rows = json_array();
    bool good = true;

    json_object_set_new(object, "version", json_string(ckv_version()));
    json_object_set_new(object, "build", build_object());
    json_object_set_new(object, "chosen_by", context == NULL ? json_null() : json_string(chosen_by(options)));
    json_object_set_new(object, "error", context == NULL ? json_string(error) : json_null());
    json_object_set_new(object, "backends", rows);
    for (int32_t i = 0; good && i < ckv_device_count(context); i++) {
        ckv_device_info info;

        good = row(context, i, &info);
        if (good)
            json_array_append_new(rows, row_object(&info));
    }
    if (good && context != NULL) {
        json_t *tuning = info_tuning_object(context);

        good = tuning != NULL;
        if (good)
            json_object_set_new(object, "tuning", tuning);
    }
    if (good && (json_dumpf(object, stdout, JSON_INDENT(2)) != 0 || putchar('\n') == EOF)) {
        message_error("JSON report: cannot be written");
        good = false;
    }
    json_decref(object);
    return good;
}

int command_info(int argc, char **argv)
{
    struct options options;
    ckv_context *context = NULL;
    char error[1024] = "";
    bool good;

    if (!options_parse_info(argc, argv, &options)) {
        options_free(&options);
        return EXIT_USAGE;
    }
    /* What there is can be told all the same. */
    if (command_open(&options, &context) != CKV_OK)
        snprintf(error, sizeof error, "%s", ckv_error_detail());
    warn_of_disabled(context);
    good = options.json ? print_json(context, &options, error) : print_table(context, &options, error);
    ckv_context_destroy(context);
    options_free(&options);
    return good ? EXIT_DONE : EXIT_INPUT;
}
