/* SPDX-License-Identifier: Apache-2.0 */
/* Where the code of a device comes from. */
#include "code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ckv/ckv.h>

#include "cache.h"
#include "embedded.h"
#include "library.h"

/* "gfx90a" is for "gfx90a:sramecc+:xnack-" too, having been built for any of these. */
static int fits(const char *image, const char *device)
{
    size_t length = strlen(image);
    return length == 0 || (strncmp(image, device, length) == 0 && (device[length] == '\0' || device[length] == ':'));
}

static int load_ahead(const ckv_gpu_driver *driver, ckv_gpu_device *device, const ckv_gpu_device_info *info,
                      const ckv_gpu_embedded_image *images, ckv_gpu_module **module)
{
    char log[256];
    for (; images != NULL && images->data != NULL; images++) {
        const ckv_gpu_image image = {images->data, images->size, 0};
        void *built;
        size_t built_size;
        if (fits(images->arch, info->arch) &&
            driver->load_module(device, &image, "", module, &built, &built_size, log, sizeof log) == CKV_GPU_OK) {
            free(built);
            return 1;
        }
    }
    return 0;
}

/* Everything that an image depends on.  The kernels' text is in it whole, so that no
 * two ever count as one. */
static char *make_key(const ckv_gpu_driver *driver, const ckv_gpu_device_info *info, const char *defines,
                      const ckv_gpu_embedded *have, size_t *size)
{
    char head[1024];
    int length = snprintf(head, sizeof head, "libckv %s\n%s\n%s\n%s\n%s\n%s\n%s\n", ckv_version(), driver->name,
                          info->vendor, info->name, info->arch, info->driver, defines);
    char *key;
    if (length <= 0 || (size_t)length >= sizeof head)
        return NULL;
    *size = (size_t)length + *have->text_size;
    key = malloc(*size);
    if (key != NULL) {
        memcpy(key, head, (size_t)length);
        memcpy(key + length, have->text, *have->text_size);
    }
    return key;
}

static int build_now(const ckv_gpu_driver *driver, ckv_gpu_device *device, const char *defines,
                     const ckv_gpu_embedded *have, const char *folder, const char *key, size_t key_size,
                     ckv_gpu_module **module, char *log, size_t log_size)
{
    const ckv_gpu_image image = {have->text, *have->text_size, 1};
    void *built = NULL;
    size_t size = 0;
    int code;
    log[0] = '\0';
    code = driver->load_module(device, &image, defines, module, &built, &size, log, log_size);
    if (code == CKV_GPU_OK && folder != NULL && key != NULL && built != NULL)
        ckv_cache_store(folder, key, key_size, built, size);
    free(built);
    if (code != CKV_GPU_OK && log[0] == '\0')
        ckv_library_say(log, log_size, "building the kernels: %s (%d)", driver->error(code), code);
    return code;
}

int ckv_gpu_load_code(const ckv_gpu_driver *driver, ckv_gpu_device *device, const ckv_gpu_device_info *info,
                      const char *defines, ckv_gpu_module **module, ckv_gpu_origin *origin, char *log, size_t log_size)
{
    const ckv_gpu_embedded *have = driver->embedded;
    char folder[4096];
    const char *cache = ckv_cache_folder(folder, sizeof folder) ? folder : NULL;
    char *key;
    void *data;
    size_t key_size = 0, size;
    int code = CKV_GPU_FAILED;
    *module = NULL;
    if (defines[0] == '\0' && load_ahead(driver, device, info, have->images, module)) {
        *origin = CKV_GPU_BUILT_AHEAD;
        return CKV_GPU_OK;
    }
    key = cache == NULL ? NULL : make_key(driver, info, defines, have, &key_size);
    if (key != NULL && ckv_cache_load(cache, key, key_size, &data, &size)) {
        const ckv_gpu_image image = {data, size, 0};
        void *built;
        size_t built_size;
        code = driver->load_module(device, &image, defines, module, &built, &built_size, log, log_size);
        free(built);
        free(data);
        *origin = CKV_GPU_FROM_CACHE;
    }
    if (code != CKV_GPU_OK) {
        code = build_now(driver, device, defines, have, cache, key, key_size, module, log, log_size);
        *origin = CKV_GPU_BUILT_NOW;
    }
    free(key);
    return code;
}
