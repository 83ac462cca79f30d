/* SPDX-License-Identifier: Apache-2.0 */
/* Exact ratios: decimal strings, and shares of a count (spec 2.4). */
#include <string.h>

#include "policy.h"
#include "sizes.h"
#include "status.h"

#define FRACTION_DIGITS 12 /* 10^12 is the greatest power of ten below CKV_LIMIT_RATIO */

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static ckv_status not_a_decimal(const char *text)
{
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "'%.40s': wanted a plain decimal such as 0.4", text);
}

ckv_status ckv_ratio_parse(const char *text, ckv_ratio *ratio)
{
    if (text == NULL)
        return ckv_fail_null("text");
    if (ratio == NULL)
        return ckv_fail_null("ratio");
    int64_t numerator = 0, denominator = 1, divisor;
    int digits = 0, point = 0;
    size_t end = strlen(text);
    if (strchr(text, '.') != NULL)
        while (end > 0 && text[end - 1] == '0' && end > 1 && text[end - 2] != '.')
            end--; /* zeros at the end of a fraction say nothing */
    for (size_t i = 0; i < end; i++) {
        if (text[i] == '.' && !point) {
            point = 1;
            continue;
        }
        if (text[i] < '0' || text[i] > '9')
            return not_a_decimal(text);
        digits++;
        if (point)
            denominator *= 10;
        numerator = numerator * 10 + (text[i] - '0');
        if (point && denominator > CKV_LIMIT_RATIO)
            return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "'%.40s': wanted at most %d digits after the point", text,
                            FRACTION_DIGITS);
        if (numerator > CKV_LIMIT_RATIO)
            return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "'%.40s': wanted a smaller number", text);
    }
    if (digits == 0)
        return not_a_decimal(text);
    divisor = common_divisor(numerator, denominator);
    ratio->numerator = numerator / divisor;
    ratio->denominator = denominator / divisor;
    return CKV_OK;
}

ckv_status ckv_ratio_check(const char *name, const ckv_ratio *ratio)
{
    if (ratio->denominator < 1 || ratio->denominator > CKV_LIMIT_RATIO || ratio->numerator < 0 ||
        ratio->numerator > ratio->denominator)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT,
                        "%s: %lld/%lld, wanted a ratio in [0, 1] with a denominator up to 2^40", name,
                        (long long)ratio->numerator, (long long)ratio->denominator);
    return CKV_OK;
}

int64_t ckv_ratio_share(int64_t count, const ckv_ratio *ratio)
{
    int64_t share;
    if (ratio->numerator == 0 || count == 0)
        return 0;
    share = count * ratio->numerator / ratio->denominator; /* below 2^22 * 2^40 */
    return share < 1 ? 1 : share;
}
