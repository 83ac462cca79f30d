/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test may ask of the pretended devices, all of one process together.  Found by
 * dlsym in libckv_sim.so, which is loaded as soon as a backend has looked for devices.
 *
 * From the environment, read once:
 *   CKV_SIM_CUDA   architectures of the CUDA devices, as "sm_90,sm_75"; "" for none
 *   CKV_SIM_HIP    of the HIP devices, as "gfx942:sramecc+:xnack-,gfx1100"
 *   CKV_SIM_SEED   of every order and every noise
 *   CKV_SIM_FAIL   NAME:N or NAME:N:CODE, see ckv_sim_fail
 *   CKV_SIM_MEMORY bytes of each device
 *   CKV_SIM_REPORT a file that gets a line of what is still live, when the process ends
 */
#ifndef CKV_TESTS_SIM_CONTROL_H
#define CKV_TESTS_SIM_CONTROL_H

#include <stdint.h>

typedef struct ckv_sim_live {
    int64_t memory, bytes, streams, events, modules, contexts, programs;
} ckv_sim_live;

#define SIM_CONTROL                                                                                                      \
    /* The nth call from now of that name fails with `code`; 0: with one of its own.  "any": whatever the call is.     \
     * "kernel": the nth kernel that runs stops, and its device with it.  "lost": from the nth call on, all fail. */ \
    CONTROL(void, ckv_sim_fail, (const char *name, int64_t nth, int code))                                               \
    CONTROL(int64_t, ckv_sim_calls, (void)) /* so far, that could fail */                                                \
    /* The names of the vendor's functions called since it was last asked, but for the naming of errors, each once. */   \
    CONTROL(const char *, ckv_sim_called, (void))                                                                        \
    /* Calls so far that needed a device current, and had this one. */                                                   \
    CONTROL(int64_t, ckv_sim_used, (const char *backend, int device))                                                    \
    CONTROL(ckv_sim_live, ckv_sim_counts, (void))                                                                        \
    CONTROL(void, ckv_sim_reset, (void)) /* no failure, no lost device, no complaint */                                  \
    CONTROL(void, ckv_sim_seed, (uint64_t seed))                                                                         \
    /* The first misuse, such as memory freed twice or written beyond its end; "" where there was none. */               \
    CONTROL(const char *, ckv_sim_complaint, (void))                                                                     \
    /* 1: work is kept instead of run, and what a graph cannot hold fails, as when a stream is captured. */              \
    CONTROL(void, ckv_sim_capture, (int on))                                                                             \
    CONTROL(int, ckv_sim_replay, (void)) /* runs what was kept; the commands it had */                                   \
    /* 1: what is put on streams from now on is written down, a line each, as "2 launch ckv_attend":  \
     * the stream (0: the default one) and "launch NAME", "upload BYTES locked" (or "pageable"),      \
     * "download BYTES locked", "fill BYTES", "record EVENT" or "follow EVENT". */                  \
    CONTROL(void, ckv_sim_log, (int on))                                                                                 \
    CONTROL(const char *, ckv_sim_logged, (void))                                                                        \
    /* 1: streams do not wait for events, as if nobody had asked them to. */                                             \
    CONTROL(void, ckv_sim_ignore_events, (int on))                                                                       \
    /* Calls of a matrix instruction of matrix.h by kernels that ran, over all lanes. */                                 \
    CONTROL(int64_t, ckv_sim_issued, (const char *name))                                                                 \
    /* Memory of a device as the vendor's call gives it, and its bytes as the host may touch them. */                    \
    CONTROL(void *, ckv_sim_allocate, (const char *backend, int device, int64_t bytes))                                  \
    CONTROL(void, ckv_sim_release, (void *memory))                                                                       \
    CONTROL(void *, ckv_sim_bytes, (void *memory))

#define CONTROL(result, name, arguments) __attribute__((visibility("default"))) result name arguments;
SIM_CONTROL
#undef CONTROL

#endif
