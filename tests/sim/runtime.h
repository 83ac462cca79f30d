/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices behind the pretended libcuda and libamdhip64: memory, streams, events and
 * modules, with CUDA's numbers for errors, which HIP shares.
 *
 * Work is queued and runs when somebody waits for it, or now and then before, and
 * streams are interleaved by the seed: who reads a result too early, frees what is in
 * use or relies on an order that was not asked for sees something else.  A device's
 * addresses are of no use to the host, which faults where it touches one.
 */
#ifndef CKV_TESTS_SIM_RUNTIME_H
#define CKV_TESTS_SIM_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default) /* of libckv_sim.so, for the libraries over it */

#define SIM_EXPORT __attribute__((visibility("default")))

enum sim_error {
    SIM_OK = 0,
    SIM_INVALID_VALUE = 1,
    SIM_OUT_OF_MEMORY = 2,
    SIM_NOT_INITIALIZED = 3,
    SIM_NO_DEVICE = 100,
    SIM_INVALID_DEVICE = 101,
    SIM_INVALID_IMAGE = 200,
    SIM_INVALID_CONTEXT = 201,
    SIM_NO_BINARY = 209,
    SIM_INVALID_HANDLE = 400,
    SIM_NOT_FOUND = 500,
    SIM_NOT_READY = 600,
    SIM_ILLEGAL_ADDRESS = 700,
    SIM_LAUNCH_FAILED = 719,
    SIM_NOT_IN_CAPTURE = 900,
    SIM_UNKNOWN = 999
};

enum { SIM_CUDA, SIM_HIP, SIM_PLATFORMS };

typedef struct sim_device {
    int platform, index;
    char arch[64];
    uint32_t lanes;
    int retained; /* references to CUDA's primary context */
    int64_t used; /* calls with it current */
} sim_device;

/* ---------------------------------------------------------------- calls */

/* Around every call of the vendor's interface but the naming of errors: takes the lock,
 * counts, and gives the error to fail with, 0 for none.  sim_leave returns `error`. */
int sim_enter(const char *name);
int sim_leave(int error);
void sim_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* An error that stays: all that comes after fails with it. */
void sim_lose(int error);
int sim_lost(void);
int sim_capturing(void);
uint64_t sim_random(void);
int sim_order(void);                   /* of streams, by the seed: see queue.c */
int sim_kernel_fails(void);            /* the one that is to run now */
const char *sim_error_name(int error); /* without the vendor's prefix, as "OUT_OF_MEMORY" */

/* ---------------------------------------------------------------- devices and memory */

int sim_device_count(int platform);
sim_device *sim_device_at(int platform, int index); /* NULL if there is none */
void sim_use(const sim_device *device);
uint64_t sim_device_bytes(void);
int64_t sim_contexts(void);

int sim_allocate(const sim_device *device, size_t bytes, void **memory);
int sim_free(void *memory);
/* The host's, page-locked; counted as memory. */
int sim_lock_host(const sim_device *device, size_t bytes, void **memory);
int sim_unlock_host(void *memory);
int sim_is_locked(const void *memory, size_t bytes);
/* The host's address of `bytes` at a device's address, NULL where they are not all in
 * one live block; of `device`, or of any device where that is NULL. */
void *sim_reach(const sim_device *device, const void *memory, size_t bytes);
const sim_device *sim_owner(const void *memory); /* NULL: not a device's address */
void sim_check_memory(void);                     /* red zones */
void sim_check_leaks(const sim_device *device);  /* of a context that ends */

/* ---------------------------------------------------------------- live objects */

enum sim_kind { SIM_STREAM, SIM_EVENT, SIM_MODULE, SIM_PROGRAM, SIM_KINDS };

/* Zeroed, and in the list of its kind. */
void *sim_new(enum sim_kind kind, size_t size);
int sim_is(enum sim_kind kind, const void *object);
void sim_delete(enum sim_kind kind, void *object);
int64_t sim_live_objects(enum sim_kind kind);

/* ---------------------------------------------------------------- queue */

typedef struct sim_stream {
    const sim_device *device;
    int blocking; /* waits for the default stream, and the other way round */
    int number;
} sim_stream;

typedef struct sim_event {
    int pending, recorded, number;
    int64_t last; /* of the list of work: the latest record */
    double time;  /* milliseconds */
} sim_event;

typedef struct sim_kernel_call sim_kernel_call;

enum sim_command { SIM_UPLOAD, SIM_DOWNLOAD, SIM_FILL, SIM_LAUNCH, SIM_RECORD, SIM_FOLLOW };

typedef struct sim_work {
    enum sim_command command;
    void *to;
    const void *from;
    size_t bytes;
    int value;
    sim_event *event;
    int64_t record;        /* that SIM_FOLLOW waits for */
    sim_kernel_call *call; /* owned by the queue from then on */
} sim_work;

sim_stream *sim_new_stream(const sim_device *device, int blocking);
sim_event *sim_new_event(void);
int sim_enqueue(const sim_device *device, sim_stream *stream, const sim_work *work);
int sim_wait_stream(const sim_device *device, const sim_stream *stream);
int sim_wait_event(const sim_event *event);
int sim_wait_all(void);
void sim_progress(void); /* perhaps runs something */
int sim_replay(void);    /* runs what was captured */
void sim_forget_kept(void);

/* ---------------------------------------------------------------- modules */

int sim_load_module(const sim_device *device, const void *image, void **module);
int sim_unload_module(void *module);
/* A function lives as long as its module. */
int sim_find_function(void *module, const char *name, void **function);
/* arguments[i] points at the ith argument, as in cuLaunchKernel. */
int sim_prepare_call(const sim_device *device, void *function, const uint32_t groups[3], const uint32_t size[3],
                     void *const *arguments, sim_kernel_call **call);
int sim_run_call(const sim_device *device, const sim_kernel_call *call);
const char *sim_name_call(const sim_kernel_call *call);
sim_kernel_call *sim_copy_call(const sim_kernel_call *call);
void sim_delete_call(sim_kernel_call *call);

#pragma GCC visibility pop

#endif
