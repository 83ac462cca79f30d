/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS, looked for when the program runs: nothing of it is needed to build. */
#ifndef CKV_BENCH_BLAS_H
#define CKV_BENCH_BLAS_H

#include <stdbool.h>
#include <stdint.h>

struct blas {
    void *library;    /* NULL: not found */
    char reason[200]; /* why not */
    char config[200]; /* version and the kernels that it chose */
    void (*set_threads)(int count);
    /* cblas_sgemm */
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
};

/* From CKV_OPENBLAS, a path, or else by its usual names.  False: blas->reason says why. */
bool blas_open(struct blas *blas);
void blas_close(struct blas *blas);

/* c [m, n], rows of ldc = a [m, k] times the transpose of b [n, k]. */
void blas_multiply(const struct blas *blas, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                   const float *b, int64_t ldb, float alpha, float *c, int64_t ldc);

#endif
