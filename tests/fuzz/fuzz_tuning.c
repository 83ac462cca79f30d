/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of tuning files over any bytes: whatever entry it gives has texts that end,
 * numbers in their ranges and the checksum of what it holds; and it can be written again.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/tuning_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void require_text(const char *text, size_t size)
{
    require(memchr(text, '\0', size) != NULL);
    for (; *text != '\0'; text++)
        require(*text >= ' ' && *text <= '~');
}

static void visit(void *user, const ckv_tuning_entry *e)
{
    const ckv_json *json = ckv_json_load();
    ckv_tuning_entry again;
    char reason[128];
    json_t *object;
    int keyed = 0;

    ++*(int32_t *)user;
    require_text(e->backend, sizeof e->backend);
    require_text(e->device.vendor, sizeof e->device.vendor);
    require_text(e->device.name, sizeof e->device.name);
    require_text(e->device.arch, sizeof e->device.arch);
    require_text(e->device.driver, sizeof e->device.driver);
    require_text(e->device.compiler, sizeof e->device.compiler);
    require_text(e->library, sizeof e->library);
    require_text(e->stage, sizeof e->stage);
    require_text(e->date, sizeof e->date);
    require(e->count >= 1 && e->count <= CKV_TUNABLES_MAX);
    require(e->scope == CKV_TUNE_CONTEXT || e->scope == CKV_TUNE_PROJECTION || e->scope == CKV_TUNE_PLAN);
    require(e->time_ns >= 0 && e->default_ns >= 0 && e->device.units >= 0);
    for (int32_t i = 0; i < e->count; i++) {
        require_text(e->values[i].name, sizeof e->values[i].name);
        require_text(e->values[i].label, sizeof e->values[i].label);
        require(e->values[i].number >= 0);
    }
    for (int i = 0; i < CKV_BUCKET_SIZES; i++)
        require(e->bucket.size[i] >= 0 && e->bucket.size[i] <= 1 << 30);
    object = ckv_tuning_entry_to_json(json, e);
    require(object != NULL && ckv_tuning_entry_from_json(json, object, &again, &keyed, reason, sizeof reason));
    require(keyed && ckv_tuning_same_key(e, &again) && again.time_ns == e->time_ns);
    ckv_json_release(json, object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckv_tuning_report report;
    int32_t count = 0;
    int read;

    if (ckv_json_load() == NULL)
        return 0;
    read = ckv_tuning_text_read((const char *)data, size, visit, &count, &report);
    require(count == report.valid && report.skipped >= 0);
    require(read || count == 0);
    require(memchr(report.reason, '\0', sizeof report.reason) != NULL);
    require((report.skipped == 0 && read) || (report.trouble && report.reason[0] != '\0'));
    return 0;
}
