/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS, looked for when the program runs. */
#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_MAJOR 101
#define NO_TRANSPOSE 111
#define TRANSPOSE 112

/* POSIX's way to make a function pointer of what dlsym returns. */
static bool find(struct blas *blas, const char *name, void *function)
{
    void *symbol = dlsym(blas->library, name);

    memcpy(function, &symbol, sizeof symbol);
    if (symbol != NULL)
        return true;
    snprintf(blas->reason, sizeof blas->reason, "the library has no %s", name);
    return false;
}

static void *open_any(char *reason, size_t size)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas.0.dylib"};
    const char *path = getenv("CKV_OPENBLAS");
    void *library = NULL;

    if (path != NULL && path[0] != '\0') {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            snprintf(reason, size, "CKV_OPENBLAS: %s", dlerror());
        return library;
    }
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        snprintf(reason, size, "OpenBLAS not found (libopenblas.so.0; Debian: libopenblas0-pthread)");
    return library;
}

bool blas_open(struct blas *blas)
{
    char *(*config)(void), *(*core)(void);

    memset(blas, 0, sizeof *blas);
    blas->library = open_any(blas->reason, sizeof blas->reason);
    if (blas->library == NULL)
        return false;
    if (!find(blas, "cblas_sgemm", &blas->sgemm) || !find(blas, "openblas_set_num_threads", &blas->set_threads) ||
        !find(blas, "openblas_get_config", &config) || !find(blas, "openblas_get_corename", &core)) {
        blas_close(blas);
        return false;
    }
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": its first two words. */
    snprintf(blas->config, sizeof blas->config, "%s", config());
    for (char *at = blas->config, words = 0; *at != '\0'; at++) {
        words = (char)(words + (*at == ' '));
        if (words == 2)
            *at-- = '\0';
    }
    snprintf(blas->config + strlen(blas->config), sizeof blas->config - strlen(blas->config), " (%s)", core());
    return true;
}

void blas_close(struct blas *blas)
{
    if (blas->library != NULL)
        dlclose(blas->library);
    blas->library = NULL;
}

void blas_multiply(const struct blas *blas, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                   const float *b, int64_t ldb, float alpha, float *c, int64_t ldc)
{
    blas->sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, 0.0f, c,
                (int)ldc);
}
