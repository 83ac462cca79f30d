/* SPDX-License-Identifier: Apache-2.0 */
/* What processor this is, and what determines the machine code of its kernels. */
#include "identity.h"

#include <stdio.h>
#include <string.h>

#include "lib/compiler.h"
#include "lib/hash.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#if defined(__x86_64__) || defined(__i386__)

static void name_processor(ckv_device_identity *identity)
{
    unsigned r[12] = {0}, a, b = 0, c = 0, d = 0;
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        const unsigned vendor[3] = {b, d, c};
        memcpy(identity->vendor, vendor, sizeof vendor);
    }
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]))
            return;
    memcpy(identity->name, r, sizeof r); /* 48 bytes, padded with zeros */
}

static const char *family(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "x86-64-v4";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
        return "x86-64-v3";
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
        return "x86-64-v2";
    return "x86-64";
}

#else

/* The first "key : value" of /proc/cpuinfo, "" where there is none. */
static void read_cpuinfo(const char *key, char *to, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    to[0] = '\0';
    while (file != NULL && to[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || colon == NULL)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(to, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
    if (file != NULL)
        fclose(file);
}

/* Arm processors have numbers for names. */
static void name_processor(ckv_device_identity *identity)
{
    static const struct {
        const char *number, *name;
    } vendors[] = {{"0x41", "arm"},     {"0x43", "cavium"},   {"0x48", "hisilicon"}, {"0x4e", "nvidia"},
                   {"0x46", "fujitsu"}, {"0x51", "qualcomm"}, {"0x61", "apple"},     {"0xc0", "ampere"}};
    char model[64];
    read_cpuinfo("CPU implementer", identity->vendor, sizeof identity->vendor);
    for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++)
        if (strcmp(identity->vendor, vendors[i].number) == 0)
            snprintf(identity->vendor, sizeof identity->vendor, "%s", vendors[i].name);
    read_cpuinfo("CPU part", model, sizeof model);
    if (model[0] == '\0')
        read_cpuinfo("model name", model, sizeof model);
    if (model[0] == '\0')
        read_cpuinfo("cpu", model, sizeof model);
    snprintf(identity->name, sizeof identity->name, "%s", model);
}

/* The best of the instruction sets that kernels are written for. */
static const char *family(void)
{
    int32_t best = 0;
    while (!ckv_cpu_kernels_list[best]->usable())
        best++;
    return ckv_cpu_kernels_list[best]->isa;
}

#endif

void ckv_cpu_identify(const ckv_context *context, ckv_device_identity *identity)
{
    name_processor(identity);
    snprintf(identity->arch, sizeof identity->arch, "%s", family());
    snprintf(identity->compiler, sizeof identity->compiler, "%s", CKV_COMPILER_TEXT);
    identity->units = context->threads;
    identity->kernels = ckv_hash_text(CKV_HASH_START, ckv_version());
    identity->kernels = ckv_hash_text(identity->kernels, CKV_COMPILER_TEXT);
    identity->kernels = ckv_hash_text(identity->kernels, ckv_cpu_sources);
}
