/* SPDX-License-Identifier: Apache-2.0 */
/* What backend and device a context is to have, and who said so. */
#include "selector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

#define OPTION_BACKEND "options.backend"
#define OPTION_DEVICE "options.device"
#define VARIABLE_BACKEND "CKV_BACKEND"
#define VARIABLE_DEVICE "CKV_DEVICE"

static int is_said(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Longer ones than any name fit nothing, cut or not. */
static void set_backend(ckv_selector *s, const char *text, size_t length, const char *from)
{
    snprintf(s->backend, sizeof s->backend, "%.*s", (int)(length < sizeof s->backend ? length : sizeof s->backend),
             text);
    s->backend_from = ckv_name_is(s->backend, "auto") ? NULL : from;
}

static void set_device(ckv_selector *s, const char *text, const char *from)
{
    snprintf(s->device, sizeof s->device, "%s", text);
    s->device_from = from;
}

void ckv_selector_read(ckv_selector *s, const ckv_context_options *options)
{
    memset(s, 0, sizeof *s);
    if (options->backend != NULL)
        set_backend(s, options->backend, strlen(options->backend), OPTION_BACKEND);
    if (s->backend_from == NULL) {
        const char *text = getenv(VARIABLE_BACKEND);
        const char *colon = is_said(text) ? strchr(text, ':') : NULL;
        if (is_said(text))
            set_backend(s, text, colon == NULL ? strlen(text) : (size_t)(colon - text), VARIABLE_BACKEND);
        if (colon != NULL && is_said(colon + 1))
            set_device(s, colon + 1, VARIABLE_BACKEND);
    }
    if (is_said(options->device))
        set_device(s, options->device, OPTION_DEVICE);
    else if (s->device_from == NULL && is_said(getenv(VARIABLE_DEVICE)))
        set_device(s, getenv(VARIABLE_DEVICE), VARIABLE_DEVICE);
}

int ckv_selector_takes_backend(const ckv_selector *s, const char *name)
{
    return s->backend_from == NULL || ckv_name_is(s->backend, name);
}

int ckv_selector_takes_device(const ckv_selector *s, int32_t device, const char *name)
{
    return s->device_from == NULL || ckv_name_is_device(s->device, device, name);
}

void ckv_selector_text(const ckv_selector *s, char *text, size_t size)
{
    int used = 0;
    if (s->backend_from != NULL)
        used = snprintf(text, size, "%s '%.40s'", s->backend_from, s->backend);
    if (s->device_from != NULL && used >= 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "%s%s%s '%.40s'", used == 0 ? "" : ", ", s->device_from,
                         strcmp(s->device_from, VARIABLE_BACKEND) == 0 ? "'s device" : "", s->device);
    if (used == 0)
        snprintf(text, size, "auto");
}
