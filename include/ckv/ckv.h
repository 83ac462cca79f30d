/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libckv: eviction of KV-cache entries by output perturbation (CriticalKV).
 *
 * An inference engine hands over one attention layer's window queries, keys,
 * values and output projection and gets back the entries worth keeping, or the
 * compacted cache.  Method: Feng et al., "CriticalKV: Optimizing KV Cache
 * Eviction from an Output Perturbation Perspective", arXiv 2502.03805v2.
 * What is computed, to the last bit, is fixed by docs/specification.md; "spec"
 * with a section number refers to it.
 *
 * CONVENTIONS
 *
 * Argument order: the object worked with (context, plan) first, then inputs,
 *   then outputs, then the ckv_run of the call.
 * NULL: not allowed unless the parameter is described as optional.  Functions
 *   that destroy accept NULL.
 * Structs: those that start with `struct_size` grow over time.  Initialise them
 *   with their _init function (or zero them and set struct_size to sizeof);
 *   fields that a later version appends then read as their defaults.  Anything
 *   longer than the library knows must hold zeros there.
 * Errors: a function that can fail returns a ckv_status.  Every argument is
 *   checked before anything of the caller's is written; on an error all the
 *   caller's memory is as it was and ckv_error_detail() names the argument, its
 *   value and what was wanted.
 * Memory: what a call writes (outputs, workspace) shares no byte with anything else
 *   that the call is given, but for ckv_compact in place.  It is checked, by the
 *   range of bytes that each tensor or array spans; this struct and its views
 *   themselves are taken on trust.
 * Ownership: handles belong to the caller, who destroys them; everything else
 *   (tensors, workspace, positions) is the caller's memory, borrowed for the
 *   duration of one call.  A run call (score, norm, select, compact, evict)
 *   allocates nothing (the OpenMP runtime may, when it first starts its threads).
 * Threads: contexts, projections and plans are immutable once created and may be
 *   used from any number of threads at once; each run call in flight needs its
 *   own workspace and outputs.  The library keeps no state between calls but
 *   each thread's error detail.
 * Device memory: a context of a GPU backend takes host memory like any other and
 *   copies what it needs both ways; such a call allocates on the device and returns
 *   when its results are there.  With ckv_run.memory = CKV_MEMORY_DEVICE every pointer
 *   of the call's tensors, selection and run is an address on the context's device
 *   (another device's is an error), except where `buffer` of the same struct is set:
 *   then it is a cl_mem, and the struct's pointers are byte offsets into it.  Such a
 *   call only enqueues work on ckv_run.stream: it does not allocate, wait or read back,
 *   so that it can be captured in a graph; inputs, outputs and workspace must live until
 *   the stream has done it.
 * Floating point: run calls and ckv_plan_create expect the default rounding mode
 *   (to nearest, ties to even) on every thread that works for them.  Flush-to-zero
 *   modes do not change a result (spec 3).
 * Determinism: equal inputs give equal bits, whatever the device, thread count
 *   or alignment (spec 1).
 *
 * Names: query head, KV head, head_dim (d, of queries and keys), value_dim (dv),
 * hidden size (D, rows of W_O), group (G = query heads / KV heads), window (the
 * last queries of the prompt), budget (entries kept per KV head), keep ratio.
 */
#ifndef CKV_CKV_H
#define CKV_CKV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CKV_API __attribute__((visibility("default")))
#else
#define CKV_API
#endif

#define CKV_VERSION_MAJOR 0
#define CKV_VERSION_MINOR 1
#define CKV_VERSION_PATCH 0

/* "MAJOR.MINOR.PATCH" of the library that was loaded. */
CKV_API const char *ckv_version(void);

/* ------------------------------------------------------------------ status */

typedef enum ckv_status {
    CKV_OK = 0,
    CKV_ERROR_INVALID_ARGUMENT = 1, /* NULL, or a number out of its range */
    CKV_ERROR_SHAPE = 2,            /* a tensor's rank or extents do not fit */
    CKV_ERROR_DTYPE = 3,            /* a dtype that this argument does not take */
    CKV_ERROR_STRIDE = 4,           /* strides out of range, or an output that overlaps */
    CKV_ERROR_OVERFLOW = 5,         /* sizes whose product does not fit */
    CKV_ERROR_LIMIT = 6,            /* a size beyond a limit of spec 2.3 */
    CKV_ERROR_CAPACITY = 7,         /* workspace or an output array too small */
    CKV_ERROR_NO_MEMORY = 8,        /* the allocator returned NULL */
    CKV_ERROR_UNAVAILABLE = 9,      /* the backend or device asked for cannot be used */
    CKV_ERROR_MISMATCH = 10,        /* a projection or a selection that does not belong to the plan */
    CKV_ERROR_DEVICE = 11           /* the device or its driver failed; outputs are undefined, inputs intact */
} ckv_status;

/* A static, never-NULL English name of `status`. */
CKV_API const char *ckv_status_string(ckv_status status);

/* What the last failing call on this thread found: "key: shape [8,100,64],
 * wanted [8,128,64]".  "" before any failure.  The text is this thread's and
 * lives until its next failing call. */
CKV_API const char *ckv_error_detail(void);

/* ------------------------------------------------------------------ tensors */

typedef enum ckv_dtype {
    CKV_F32 = 1,
    CKV_F16 = 2,  /* IEEE binary16 */
    CKV_BF16 = 3, /* upper half of binary32 */
    CKV_BYTES = 4 /* opaque bytes of any format; ckv_compact only */
} ckv_dtype;

/* Bytes of one element; 0 for a value that is no dtype. */
CKV_API size_t ckv_dtype_size(ckv_dtype dtype);

#define CKV_MAX_RANK 4

/*
 * A view of the caller's memory.  Element (i0, i1, ...) is at
 * (char *)data + i0*stride[0] + i1*stride[1] + ...; strides are in BYTES, may be
 * of any size, order, alignment or sign, and for inputs may be 0 or make
 * elements overlap.  The extents are checked against the plan, so a view that
 * does not fit is an error rather than a read past its end.  Inputs are never
 * written through `data`.
 */
typedef struct ckv_tensor {
    size_t struct_size;
    ckv_dtype dtype;
    int32_t rank;
    int64_t shape[CKV_MAX_RANK];
    int64_t stride[CKV_MAX_RANK];
    void *data;
    void *buffer; /* optional: OpenCL device memory, see "Device memory" above */
} ckv_tensor;

/* A dense row-major view of rank 2 or 3: the last extent is contiguous. */
CKV_API void ckv_tensor_init_2d(ckv_tensor *tensor, ckv_dtype dtype, void *data, int64_t rows, int64_t columns);
CKV_API void ckv_tensor_init_3d(ckv_tensor *tensor, ckv_dtype dtype, void *data, int64_t heads, int64_t tokens,
                                int64_t width);

/* ------------------------------------------------------------------ policy */

/* numerator / denominator, exact; denominator in [1, 2^40], numerator in [0, 2^40]. */
typedef struct ckv_ratio {
    int64_t numerator;
    int64_t denominator;
} ckv_ratio;

/* Reads a plain decimal such as "0.4", ".25" or "1" (digits and at most one
 * point, at most 12 digits after it) exactly, in lowest terms.  `*ratio` is
 * untouched on an error.  Any value that fits; callers check the range. */
CKV_API ckv_status ckv_ratio_parse(const char *text, ckv_ratio *ratio);

typedef enum ckv_pool {
    CKV_POOL_NONE = 0,
    CKV_POOL_MAX = 1,    /* positions outside the prefix are ignored */
    CKV_POOL_AVERAGE = 2 /* positions outside the prefix count as zero */
} ckv_pool;

/* What to keep (spec 2).  Value meaning "take the default" in brackets. */
typedef struct ckv_policy {
    size_t struct_size;
    int64_t budget;  /* entries kept per KV head, >= 0; [-1]: floor(n * keep), at least 1 unless keep is 0 */
    ckv_ratio keep;  /* in [0, 1], default 2/5; not read when budget >= 0 */
    ckv_ratio alpha; /* share of the budget that stage 1 fills by attention, in [0, 1], default 1/2 */
    float epsilon;   /* added to attention in stage 2, in [2^-24, 1], default 1e-4f */
    float scale;     /* of the logits, in [2^-40, 2^40]; [0]: 1/sqrt(head_dim) */
    int32_t window;  /* queries that score, >= 0, default 32; 0 only where nothing is scored (ckv_select, ckv_norm) */
    int32_t recent;  /* last tokens kept whatever their score; 0: none; [-1]: the effective window */
    int32_t sinks;   /* leading tokens kept whatever their score, default 0 */
    ckv_pool pool;   /* along positions, per query head, before the group mean; default max */
    int32_t pool_width; /* >= 1, default 7 */
    int32_t skip;       /* 1: ckv_evict may leave out norms that cannot change what is kept; 0: it computes every norm.
                           The kept set is the same, bit for bit; default 1 */
} ckv_policy;

/* The defaults above. */
CKV_API void ckv_policy_init(ckv_policy *policy);

/* ------------------------------------------------------------------ context */

typedef struct ckv_context ckv_context;

typedef struct ckv_context_options {
    size_t struct_size;
    /* Optional, names in any case: "auto" (also NULL) or a backend's name, and a device's index
     * within its backend (all digits) or part of its name.  What is not said here, the environment
     * may say: CKV_BACKEND (NAME or NAME:DEVICE), CKV_DEVICE.  Something asked for and unusable,
     * CKV_CPU_ISA and CKV_GPU_NORM included where such a device comes up, is CKV_ERROR_UNAVAILABLE,
     * whose detail says who asked, what there is and why not the rest. */
    const char *backend;
    const char *device;
    /* Optional pair: memory of the handles.  `allocate` returns at least `bytes`
     * bytes aligned to `alignment` (a power of two), or NULL; both must be
     * callable from every thread that creates, destroys or (ckv_device_query) lists. */
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory);
    void *user; /* optional, passed to both */

    /* At most this many threads work in one call, [0]: CKV_NUM_THREADS, which must be a number from
     * 1 to 1024 then, else the OpenMP default.  Inside an OpenMP parallel region a call stays on its thread, and
     * so it does in a process forked after a call that had several.  OpenMP gives each
     * calling thread a team of its own, and ends the process when it cannot start one:
     * an engine with threads of its own sets 1 here, or parallel_for. */
    int32_t threads;
    /* Optional: the engine's own threads instead of OpenMP's.  Calls task(argument, i)
     * once for each i in [0, tasks), tasks <= threads, in any order and on any threads,
     * and returns when all have returned. */
    void (*parallel_for)(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument);
    void *pool; /* optional, passed to it */

    /* Optional: a cl_context that has the device, in place of one of the library's own, so
     * that calls can take its queues and cl_mems; retained.  "opencl" alone: CUDA and HIP
     * use the device's primary context, which engines share. */
    void *native_context;

    /* Optional: values of tunables, "name=value,name=value" (see "tuning" below), that hold
     * for all that is made from this context.  Beats the environment's CKV_PARAMETERS. */
    const char *parameters;
} ckv_context_options;

/* Everything "auto". */
CKV_API void ckv_context_options_init(ckv_context_options *options);

/* `options` is optional.  `*context` is NULL after an error. */
CKV_API ckv_status ckv_context_create(const ckv_context_options *options, ckv_context **context);

/* Destroy the projections and plans made from a context before it. */
CKV_API void ckv_context_destroy(ckv_context *context);

typedef struct ckv_device_info {
    size_t struct_size;
    const char *backend; /* "ref", "cpu", "cuda", "hip", "opencl", or a module's */
    int32_t device;      /* index within its backend; -1: the row speaks of the backend as a whole */
    const char *name;    /* of the device; "" where there is none */
    int32_t available;   /* 1: a context can use it */
    int32_t selected;    /* 1: this context does */
    const char *reason;  /* why it is not available; "" when it is */
    const char *variant; /* where it is selected: as in ckv_plan_info; else "" */
} ckv_device_info;

/* Every backend that the library knows, built in or a module, and every device of each,
 * usable or not, and why not; asking for it loads every driver there is.  "auto" takes the
 * first that it can open of: discrete GPUs, GPUs that share the host's memory, "cpu", "ref";
 * of equals the first in this list; an OpenCL device that is a CPU never.  Strings live as
 * long as the context.  `context` is optional: without one nothing is selected or was tried,
 * and strings live until the thread's next such call.
 * Set info->struct_size before the call; index in [0, ckv_device_count). */
CKV_API int32_t ckv_device_count(const ckv_context *context);
CKV_API ckv_status ckv_device_query(const ckv_context *context, int32_t index, ckv_device_info *info);

/* ------------------------------------------------------------------ projection */

typedef struct ckv_projection ckv_projection;

/*
 * Quantises one layer's W_O for the norm (spec 5.1); done once per layer, then
 * reused for every eviction.  `weight` [D, query_heads * value_dim] is the
 * `o_proj.weight` layout: row = output channel, column = head * value_dim +
 * channel; no relation between D and query_heads * value_dim is assumed.  It is
 * read before the call returns and not needed afterwards.  The projection serves
 * plans of the same context; it borrows the context.  `*projection` is NULL after
 * an error.
 */
CKV_API ckv_status ckv_projection_create(const ckv_context *context, const ckv_tensor *weight, int32_t query_heads,
                                         int32_t value_dim, ckv_projection **projection);
CKV_API void ckv_projection_destroy(ckv_projection *projection);

/* CKV_NONFINITE_WEIGHT if the weight held NaN or infinity (spec 3.1), else 0. */
CKV_API uint32_t ckv_projection_flags(const ckv_projection *projection);

/* ------------------------------------------------------------------ plan */

/* One layer's sizes.  kv_heads and tokens are always needed; of the others, a
 * plan used for some stage calls only may leave at 0 what those do not use
 * (ckv_select and ckv_compact use none). */
typedef struct ckv_shape {
    size_t struct_size;
    int32_t query_heads; /* Hq, a multiple of kv_heads (score, norm) */
    int32_t kv_heads;    /* Hkv */
    int64_t tokens;      /* n, rows of K and V, in [1, 2^22] */
    int64_t queries;     /* query rows handed to ckv_score, the prompt's last ones; the window is cut from their end */
    int32_t head_dim;    /* d, at most 2^15 (score) */
    int32_t value_dim;   /* dv, at most 512 (norm) */
    int32_t hidden;      /* D, at most 2^15 (norm) */
} ckv_shape;

/* All sizes 0. */
CKV_API void ckv_shape_init(ckv_shape *shape);

typedef struct ckv_plan ckv_plan;

/* Checks and freezes shape and policy (optional: NULL for the defaults); cheap, no
 * work on the data.  The plan borrows the context.  `*plan` is NULL after an error. */
CKV_API ckv_status ckv_plan_create(const ckv_context *context, const ckv_shape *shape, const ckv_policy *policy,
                                   ckv_plan **plan);
CKV_API void ckv_plan_destroy(ckv_plan *plan);

typedef struct ckv_plan_info {
    size_t struct_size;
    int64_t tokens;        /* n */
    int64_t window;        /* effective: min(policy window, queries unless 0, n) */
    int64_t budget;        /* entries kept per KV head, min(b, n): the rows of a compacted cache */
    int64_t stage1;        /* slots of stage 1, forced entries counted in */
    int64_t positions;     /* kv_heads * budget: what ckv_selection.positions must hold */
    int64_t next_position; /* position of the token that follows the n given: n, however many rows are kept */
    size_t workspace;      /* bytes that any run call of this plan needs; O(kv_heads * (n + value_dim^2)) and a few MB
                              a thread */
    const char *backend;   /* that runs it; lives as long as the context */
    const char *device;
    int32_t device_memory; /* 1: the backend has memory of its own: a call with CKV_MEMORY_HOST needs no workspace,
                              one with CKV_MEMORY_DEVICE takes `workspace` bytes of the device's */
    const char *variant;   /* of the backend's code that runs it: an instruction set ("avx2"), or how a GPU computes
                              the norm and where its code came from ("mma, built ahead"); lives as long as the context */
} ckv_plan_info;

/* Set info->struct_size before the call. */
CKV_API ckv_status ckv_plan_query(const ckv_plan *plan, ckv_plan_info *info);

/* ------------------------------------------------------------------ tuning */

/* Block sizes, instruction sets, routes: what makes a result faster or slower and never
 * changes a bit of it.  Which there are depends on the backend; which values, on the device. */

/* What a value holds for, all that is made from it. */
enum { CKV_SCOPE_CONTEXT = 0, CKV_SCOPE_PROJECTION = 1, CKV_SCOPE_PLAN = 2 };

typedef struct ckv_tunable_info {
    size_t struct_size;
    const char *stage;         /* whose time it changes: "score", "norm", "select", "compact", "evict" or "all" */
    const char *name;          /* unique within the backend */
    const char *meaning;       /* one line */
    int32_t count;             /* of values */
    const int32_t *values;     /* ascending; ckv_tunable_allows tells which of them this device takes */
    const char *const *labels; /* the values' names, or NULL where numbers say it all */
    int32_t scope;             /* CKV_SCOPE_* */
} ckv_tunable_info;

/* Set info->struct_size before the call; index in [0, ckv_tunable_count).  What it points
 * to lives as long as the context. */
CKV_API int32_t ckv_tunable_count(const ckv_context *context);
CKV_API ckv_status ckv_tunable_query(const ckv_context *context, int32_t index, ckv_tunable_info *info);
CKV_API int32_t ckv_tunable_allows(const ckv_context *context, int32_t index, int32_t value);

/* Who settled a value, the first that knew one. */
enum {
    CKV_SOURCE_OVERRIDE = 1,     /* ckv_context_options.parameters */
    CKV_SOURCE_ENVIRONMENT = 2,  /* CKV_PARAMETERS, CKV_CPU_ISA, CKV_GPU_NORM */
    CKV_SOURCE_USER_FILE = 3,    /* tuned on this device */
    CKV_SOURCE_SHIPPED_FILE = 4, /* tuned on such a device, and shipped with the library */
    CKV_SOURCE_DEVICE = 5,       /* tuned on this device, for another problem */
    CKV_SOURCE_ARCHITECTURE = 6, /* tuned on a device of the same architecture */
    CKV_SOURCE_VENDOR = 7,       /* tuned on a device of the same vendor */
    CKV_SOURCE_MODEL = 8         /* worked out from what the device says of itself */
};

/* "override", "environment", ...; never NULL. */
CKV_API const char *ckv_source_string(int32_t source);

typedef struct ckv_parameter {
    size_t struct_size;
    int32_t value;
    int32_t source; /* CKV_SOURCE_* */
} ckv_parameter;

/* What a plan runs with.  Set parameter->struct_size before the call; index as above. */
CKV_API ckv_status ckv_plan_parameter(const ckv_plan *plan, int32_t index, ckv_parameter *parameter);

/*
 * What tuning files gave a context (docs/tuning.md).  They are read once, when it is
 * created: the user's, CKV_TUNE_CACHE or ckv/tuning.json in the user's folder of caches,
 * and the one that is shipped with the library.  Whatever is wrong with a file shows here
 * and nowhere else.  With CKV_TUNE_CACHE=off no file is looked for.
 */
typedef struct ckv_tuning_info {
    size_t struct_size;
    const char *device;  /* that entries must match: backend, vendor, name, architecture, ... */
    const char *path;    /* of the user's file, which may not be there yet; "": none is looked for */
    const char *shipped; /* of the shipped file; "": none was found */
    int32_t accepted;    /* entries that this context can use, of both files */
    int32_t foreign;     /* sound entries of other devices, drivers or versions of the library */
    int32_t skipped;     /* damaged entries, and those with names or values that there are not */
    int32_t trouble;     /* 1: worth a warning; 0 where a file is merely not there */
    const char *reason;  /* the first why a file or an entry is not used; "" */
} ckv_tuning_info;

/* Set info->struct_size before the call.  Strings live as long as the context. */
CKV_API ckv_status ckv_tuning_status(const ckv_context *context, ckv_tuning_info *info);

/* For tuners, before anything is measured: the error that ckv_tuning_save would come to, where it can be told
 * without writing.  Leaves nothing behind. */
CKV_API ckv_status ckv_tuning_check(const ckv_context *context);

/*
 * For tuners: writes the values that `plan` has of one stage's tunables into the user's file,
 * for plans of such sizes on such a device; `seconds` of the stage with them, and with those
 * of the model.  Other entries stay.  An error leaves the file as it was, and is no reason to
 * stop: CKV_ERROR_UNAVAILABLE where it cannot be written, or another process holds its lock
 * for some seconds.  Contexts that there are do not see the entry.
 */
CKV_API ckv_status ckv_tuning_save(const ckv_plan *plan, const char *stage, double seconds, double model_seconds);

/* ------------------------------------------------------------------ running */

enum {
    CKV_NONFINITE_QUERY = 1, /* NaN or infinity among the elements read: processed by the */
    CKV_NONFINITE_KEY = 2,   /* sanitising rule (spec 3.1), and reported here             */
    CKV_NONFINITE_VALUE = 4,
    CKV_NONFINITE_WEIGHT = 8,
    CKV_NONFINITE_ATTENTION = 16, /* ckv_select: a caller's own attention or norm held NaN or */
    CKV_NONFINITE_NORM = 32,      /* infinity (spec 6.4)                                      */
    CKV_BAD_SELECTION = 64        /* ckv_compact with device memory: positions that no selection of the plan has;
                                     those rows were not moved */
};

/* What a run call works with beside its tensors. */
typedef struct ckv_run {
    size_t struct_size;
    void *workspace;       /* any alignment */
    size_t workspace_size; /* at least ckv_plan_info.workspace */
    uint32_t flags;        /* out: CKV_NONFINITE_* of this call; 0 when it failed, and with CKV_MEMORY_DEVICE */
    int32_t memory;        /* CKV_MEMORY_*, default host */
    int64_t exact_norms;   /* out: rows of V, over all KV heads, whose norm ckv_norm or ckv_evict computed; rows of which
                              it was computed for some of the group's query heads count by their share, the sum
                              rounded up; 0 for the other calls, when it failed, and with CKV_MEMORY_DEVICE.  How many
                              rows ckv_evict can leave out is, unlike every other output, a matter of backend and
                              device */
    void *stream;          /* optional: CUstream, hipStream_t or cl_command_queue of the context's device that work goes
                              on; NULL: the context's own.  Not read with CKV_MEMORY_HOST */
    void *buffer;          /* optional cl_mem, see "Device memory" above */
    void *device_flags;    /* optional, CKV_MEMORY_DEVICE: a uint32_t on the device that this call's CKV_NONFINITE_* are
                              or-ed into; aligned to 4 */
} ckv_run;

/* Where a call's pointers point. */
enum { CKV_MEMORY_HOST = 0, CKV_MEMORY_DEVICE = 1 };

/* Borrows the workspace for the calls that the run is used in. */
CKV_API void ckv_run_init(ckv_run *run, void *workspace, size_t workspace_size);

/* Why an entry was kept. */
enum {
    CKV_KEPT_ALL = 0,    /* the budget covers every token: nothing was ranked */
    CKV_KEPT_FORCED = 1, /* recent or sink */
    CKV_KEPT_STAGE1 = 2, /* by attention */
    CKV_KEPT_STAGE2 = 3  /* by (attention + epsilon) * norm */
};

/*
 * Kept rows, one KV head after another: head h has
 * positions[offsets[h]] ... positions[offsets[h+1] - 1], strictly ascending row
 * numbers of the K and V that were given.
 */
typedef struct ckv_selection {
    size_t struct_size;
    int32_t *positions; /* [capacity] */
    int64_t capacity;   /* at least ckv_plan_info.positions */
    int32_t *offsets;   /* [kv_heads + 1]; offsets[0] = 0 */
    uint8_t *stages;    /* optional [capacity]: CKV_KEPT_* beside each position */
    void *buffer;       /* optional cl_mem, see "Device memory" above; stages is never at its offset 0 */
} ckv_selection;

/* Without stages. */
CKV_API void ckv_selection_init(ckv_selection *selection, int32_t *positions, int64_t capacity, int32_t *offsets);

/*
 * Attention that each position receives from the window (spec 4).
 * query [Hq, queries, d] and key [Hkv, n, d], both after RoPE, F32, F16 or BF16
 * each; attention [Hkv, n] F32 out, +0 in the window.
 */
CKV_API ckv_status ckv_score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                             const ckv_tensor *attention, ckv_run *run);

/*
 * L1 norm of each value row after the output projection, averaged over the
 * group's query heads (spec 5).  value [Hkv, n, dv]; norm [Hkv, n] F32 out.
 */
CKV_API ckv_status ckv_norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                            const ckv_tensor *norm, ckv_run *run);

/*
 * Forced entries, stage 1, stage 2 (spec 6), from attention and norm [Hkv, n]
 * F32: those of the two calls above or an engine's own.  NaN ranks last, -0
 * equals +0, ties go to the lower position.
 */
CKV_API ckv_status ckv_select(const ckv_plan *plan, const ckv_tensor *attention, const ckv_tensor *norm,
                              const ckv_selection *selection, ckv_run *run);

/*
 * Moves the kept rows of `from` [Hkv, n, width] to rows 0, 1, ... of `to`
 * [Hkv, >= budget, width], byte for byte: keys keep the rotation they have.
 * Same dtype in both; CKV_BYTES takes rows of any format.  `to` either has the
 * data and strides of `from` (in place; the number of rows may differ) or does not
 * overlap it.
 * Rows of `to` past the kept ones are not touched.  `selection` must hold what
 * this plan's select wrote: it is checked.
 */
CKV_API ckv_status ckv_compact(const ckv_plan *plan, const ckv_tensor *from, const ckv_selection *selection,
                               const ckv_tensor *to, ckv_run *run);

/* Score, norm and select in one call.  Norms that cannot change what is kept may be
 * left out (ckv_policy.skip).  A budget of all tokens, or of none, checks its arguments
 * like any other but reads no tensor, and sets no flag. */
CKV_API ckv_status ckv_evict(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                             const ckv_tensor *value, const ckv_projection *projection, const ckv_selection *selection,
                             ckv_run *run);

/* ------------------------------------------------------------------ for tuners */

/* What a stage reads; what it does not use may be NULL. */
typedef struct ckv_inputs {
    size_t struct_size;
    const ckv_tensor *query, *key, *value;
    const ckv_projection *projection;
    const ckv_tensor *attention, *norm;
    const ckv_selection *selection;
} ckv_inputs;

/* All NULL. */
CKV_API void ckv_inputs_init(ckv_inputs *inputs);

/*
 * Seconds of one stage of a plan: "score", "norm", "select", "compact" (of key and value,
 * not in place) or "evict".  `inputs` are in host memory; results go to memory of the
 * call's own.  One run is not counted (but one of a quarter of a second and more on the
 * host), then seconds[0] to seconds[repeats - 1] are those of one run each, repeats in
 * [1, 1000]: by the device's events, in the device's memory, where the backend has such; by
 * a monotonic clock elsewhere.
 * No run call: it allocates, copies and waits.  The library itself never calls it.
 */
CKV_API ckv_status ckv_measure(const ckv_plan *plan, const char *stage, const ckv_inputs *inputs, int32_t repeats,
                               double *seconds);

/*
 * What the backend's model thinks that a stage takes with these values, one for each
 * tunable (NULL: the plan's own), without running anything.  For ranking: seconds of a
 * machine of round figures.  0: the backend has no model of this stage.
 */
CKV_API ckv_status ckv_estimate(const ckv_plan *plan, const char *stage, const int32_t *values, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
