/* SPDX-License-Identifier: Apache-2.0 */
/* A library with OpenBLAS's names, for tests of ckv bench: right, or wrong by the factor
 * WRONG where k, the width of the factors, is WRONG_K. */
#ifndef WRONG_K
#define WRONG_K 0
#endif
#ifndef WRONG
#define WRONG 1.05f
#endif

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc)
{
    /* What ckv bench asks for, and nothing else. */
    float wrong = k == WRONG_K ? WRONG : 1.0f;
    float factor = order == 101 && transpose_a == 111 && transpose_b == 112 && beta == 0.0f ? wrong * alpha : 0.0f;

    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;

            for (int l = 0; l < k; l++)
                sum += a[i * lda + l] * b[j * ldb + l];
            c[i * ldc + j] = factor * sum;
        }
}

void openblas_set_num_threads(int count);
void openblas_set_num_threads(int count)
{
    (void)count;
}

char *openblas_get_config(void);
char *openblas_get_config(void)
{
    return (char *)"TestBLAS 1.2.3 AND MORE";
}

char *openblas_get_corename(void);
char *openblas_get_corename(void)
{
    return (char *)"plain";
}
