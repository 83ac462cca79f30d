/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libOpenCL in front of the real one, SHIM_OPENCL, for tests/opencl-devices.sh: programs
 * for devices with SHIM_FAIL in their names cannot be built.  All other calls jump on to
 * where they would have gone.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/vendor/opencl.h"

#if defined(__x86_64__)
#define JUMP(name) "jmp *real_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name) "adrp x16, real_" #name "\nldr x16, [x16, :lo12:real_" #name "]\nbr x16\n"
#else
#error "jumps for this machine are not written"
#endif

#define CONSTANT(name, value)
#define SCALAR(name, type)
#define HANDLE(name)
#define OPTIONAL(result, name, arguments) FUNCTION(result, name, arguments)
#define FUNCTION(result, name, arguments)                                                                              \
    __attribute__((visibility("hidden"))) void *real_##name;                                                           \
    __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", %function\n" #name                                 \
            ":\n" JUMP(name) ".popsection\n");
#include "backends/gpu/vendor/opencl.def"
#undef FUNCTION

static int32_t (*device_info)(void *, uint32_t, size_t, void *, size_t *);
static int32_t (*build)(void *, uint32_t, void *const *, const char *, void *, void *);
static int32_t (*build_info)(void *, void *, uint32_t, size_t, void *, size_t *);

static int fails(void *device)
{
    const char *part = getenv("SHIM_FAIL");
    char name[256] = "";
    return part != NULL && device_info(device, 0x102B, sizeof name, name, NULL) == 0 && strstr(name, part) != NULL;
}

static int32_t may_build(void *program, uint32_t count, void *const *devices, const char *options, void *notify,
                         void *user)
{
    return count > 0 && fails(devices[0]) ? -11 : build(program, count, devices, options, notify, user);
}

static int32_t say_why(void *program, void *device, uint32_t what, size_t room, void *value, size_t *size)
{
    static const char log[] = "error: the test does not want it built";
    if (what != 0x1183 || !fails(device))
        return build_info(program, device, what, room, value, size);
    if (size != NULL)
        *size = sizeof log;
    if (value != NULL && room >= sizeof log)
        memcpy(value, log, sizeof log);
    return 0;
}

__attribute__((constructor)) static void find(void)
{
    const char *path = getenv("SHIM_OPENCL");
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
#define FUNCTION(result, name, arguments) real_##name = dlsym(library, #name);
#include "backends/gpu/vendor/opencl.def"
#undef FUNCTION
    memcpy(&device_info, &real_clGetDeviceInfo, sizeof device_info);
    memcpy(&build, &real_clBuildProgram, sizeof build);
    memcpy(&build_info, &real_clGetProgramBuildInfo, sizeof build_info);
    real_clBuildProgram = (void *)may_build;
    real_clGetProgramBuildInfo = (void *)say_why;
}
