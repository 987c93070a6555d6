/* device.h: the contract of a device, and the registry that finds them.
 *
 * A device describes itself and runs products. It holds no opinion on what is fast: cost prices,
 * tune measures. It never prints, exits or aborts. "ref" and "blas" are compiled in; others are
 * modules, mmchain-NAME.so, loaded at run time, so that the library starts on a machine without
 * CUDA or MPI. A module exports one function, mmci_module_entry, and sees of the library only what
 * these headers declare. */
#ifndef MMCI_DEVICE_H
#define MMCI_DEVICE_H

#include "chain/facts.h"
#include "chain/group.h"

/* Raised whenever a struct of this header changes; a module of another ABI is turned away. */
#define MMCI_DEVICE_ABI 9

/* ---- transfers ----------------------------------------------------------------------------- */

/* Lines of bytes that lie pitch bytes apart. */
typedef struct mmci_transfer {
  void *to;
  const void *from;
  int64_t to_pitch, from_pitch, lines, line_bytes;
} mmci_transfer;

/* ---- the ordering problem ------------------------------------------------------------------ */

/* Table DP on a device (Nishida, Ito and Nakano 2011, and our tiled form). Multiplications only. */
typedef struct mmci_device_order {
  int32_t n;
  const int64_t *dims;   /* n+1 */
  const char *kernel;    /* "auto", "tiled", "thread", "block", "blocks", "paper" */
  int threads_per_block; /* 0: the fastest */
  int blocks_per_entry;  /* 0: the fastest */
  mmc_progress_fn progress;
  void *progress_user;
  mmc_write_fn profile; /* see mmc_order_options */
  void *profile_user;
  /* Answers. */
  int32_t *splits;  /* n-1, from the caller: the split of every product, parents before
                       children, right before left, ties as order.h says */
  mmc_count *table; /* NULL, or n(n+1)/2 from the caller: the least multiplications of the
                       sub-chain (i, j), i < j, at i*n - i(i-1)/2 + j-i-1 */
  mmc_count multiplications;
  double seconds;          /* of the solve on the device, by its own clock */
  const char *kernel_used; /* static text: "tiled f64" */
} mmci_device_order;

/* ---- what a kernel takes of the chip ---------------------------------------------------------
 */

/* Of a block of threads of a prepared product; of several kernels, that with the most registers and
 * shared memory. */
typedef struct mmci_kernel_facts {
  int64_t registers_per_thread, threads_per_block, shared_bytes_per_block;
} mmci_kernel_facts;

/* ---- who a device is ------------------------------------------------------------------------- */

/* Whatever changes how fast it is, for wisdom to be kept under: measured figures hold for a device
 * of the same identity alone. Texts with a final NUL, "" where there is nothing to say. */
typedef struct mmci_identity {
  char model[160];  /* of the processor or the card */
  char driver[160]; /* and runtime */
  char blas[160];   /* its build, and how many threads it runs */
  char bus_id[32];  /* on the PCI bus, as its driver spells it; no part of what is kept */
} mmci_identity;

/* ---- the contract -------------------------------------------------------------------------- */

typedef struct mmci_device mmci_device; /* one opened device; each implementation's own */
typedef struct mmci_queue mmci_queue;   /* work is done in the order in which it is enqueued */
typedef struct mmci_kernel mmci_kernel; /* a prepared product */
typedef struct mmci_group_kernel mmci_group_kernel; /* a prepared group */
typedef struct mmci_event mmci_event; /* a point in a queue that other queues can wait for */
typedef struct mmci_graph mmci_graph; /* captured work, to be launched as one */

/* A matrix as it lies, and a copy of it with more or fewer lines and elements of a line: zeros are
 * where it has none. Elements, aligned to their real type; the copies do not overlap. */
typedef struct mmci_resizing {
  const void *from;
  void *to;
  int64_t lines, length, ld, to_lines, to_length, to_ld;
} mmci_resizing;

enum { MMCI_RESIZED = 3 }; /* at once, at most */

/* What a device with memory of its own can do besides, without waiting for any of it. Its products
 * take addresses of its own memory only. Nothing here but create, capture_end and memory allocates;
 * asynchronous errors surface in a later call, in sync at the latest. */
typedef struct mmci_device_async {
  int queues; /* more than this many at work together gain nothing; at least 1 */

  /* Bytes of the device's memory: free now, and in all. */
  mmc_status (*memory)(mmci_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                       mmci_error *error);
  /* Page-locked host memory, to and from which transfers go at full speed. */
  mmc_status (*alloc_pinned)(mmci_device *device, size_t size_bytes, void **out, mmci_error *error);
  void (*dealloc_pinned)(mmci_device *device, void *memory);

  /* The queue stands for the caller's stream from now on (a cudaStream_t; NULL is CUDA's default
   * stream), or for its own again. */
  void (*queue_attach)(mmci_queue *queue, void *stream);
  void (*queue_detach)(mmci_queue *queue);

  /* Host to device and back; host memory of any kind, which must stay until sync. upload has often
   * read all of it on return; what download writes is there after sync only. Staging through pinned
   * memory is the device's own matter. */
  mmc_status (*upload)(mmci_queue *queue, const mmci_transfer *transfer, mmci_error *error);
  mmc_status (*download)(mmci_queue *queue, const mmci_transfer *transfer, mmci_error *error);
  /* to (rows x cols; element (r, c) at r * ld + c, or c * ld + r when to_trans) = from, both in
   * device memory. */
  mmc_status (*copy)(mmci_queue *queue, mmc_dtype dtype, int64_t rows, int64_t cols,
                     const void *from, const mmci_form *form, void *to, int64_t to_ld,
                     bool to_trans, mmci_error *error);
  /* Makes up to MMCI_RESIZED such copies within the device's memory. */
  mmc_status (*resize)(mmci_queue *queue, mmc_dtype dtype, const mmci_resizing *matrices, int count,
                       mmci_error *error);

  mmc_status (*event_create)(mmci_device *device, mmci_event **out, mmci_error *error);
  void (*event_destroy)(mmci_event *event);
  mmc_status (*event_record)(mmci_queue *queue, mmci_event *event, mmci_error *error);
  mmc_status (*event_wait)(mmci_queue *queue, mmci_event *event, mmci_error *error);
  /* Events that a time can be read off, by the device's clock (optional, both or none): between two
   * of them that were recorded on one queue and waited for. */
  mmc_status (*timer_create)(mmci_device *device, mmci_event **out, mmci_error *error);
  mmc_status (*seconds_between)(mmci_event *from, mmci_event *to, double *seconds,
                                mmci_error *error);

  /* Between begin and end, what this queue and those that wait for its events are given is recorded
   * and not done. upload and download are not for captures. capture_end ends the capture on failure
   * as well. A graph is launched on any queue of the device. */
  mmc_status (*capture_begin)(mmci_queue *queue, mmci_error *error);
  mmc_status (*capture_end)(mmci_queue *queue, mmci_graph **out, mmci_error *error);
  void (*graph_destroy)(mmci_graph *graph);
  mmc_status (*graph_launch)(mmci_queue *queue, mmci_graph *graph, mmci_error *error);
  /* Whether somebody is capturing this stream, as of queue_attach. */
  bool (*is_capturing)(mmci_device *device, void *stream);
} mmci_device_async;

/* Slots marked (optional) may be NULL: the device cannot do that. */
typedef struct mmci_device_ops {
  uint32_t abi, size; /* MMCI_DEVICE_ABI, sizeof(mmci_device_ops) */
  const char *name;   /* as the command and wisdom spell it */

  /* How many there are; 0 is no error, then error's text says what is missing. */
  mmc_status (*probe)(int *count, mmci_error *error);
  mmc_status (*open)(int index, mmci_device **out, mmci_error *error);
  void (*close)(mmci_device *device);
  /* Facts for people, one line: text of at most size bytes with the final NUL. */
  void (*describe)(const mmci_device *device, char *text, size_t size);
  void (*identify)(const mmci_device *device, mmci_identity *out); /* (optional) */
  /* (with products) What products and groups of this dtype and precision are taken to cost until
   * they are measured. Facts that the driver knows are the device's own; the others may be those of
   * one machine of the kind. */
  void (*facts)(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                mmci_facts *out);

  /* Products (optional, all or none). supports: can, never should. prepare may allocate; enqueue
   * and sync must not. C is written whole (zeros when k is 0) and may be read only to accumulate.
   * Operands do not overlap C. */
  bool (*supports)(const mmci_device *device, const mmci_gemm *gemm);
  int (*variants)(mmci_device *device, const mmci_gemm *gemm); /* how many ways but the first */
  const char *(*kernel_name)(const mmci_device *device, const mmci_gemm *gemm); /* static text */
  mmc_status (*prepare)(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                        mmci_error *error);
  /* Waits for what was enqueued with it where it holds memory. */
  void (*release)(mmci_kernel *kernel);
  /* (optional) Bytes of the device's memory that the product holds from prepare to release, or less
   * where prepare found none; without the slot none does. */
  uint64_t (*scratch_bytes)(const mmci_device *device, const mmci_gemm *gemm);
  mmc_status (*queue_open)(mmci_device *device, mmci_queue **out, mmci_error *error);
  void (*queue_close)(mmci_queue *queue); /* waits for what is enqueued */
  mmc_status (*enqueue)(mmci_queue *queue, const mmci_kernel *kernel, const void *a, const void *b,
                        void *c, mmci_error *error);
  mmc_status (*sync)(mmci_queue *queue, mmci_error *error);
  /* (optional) Of a product that prepare takes; executes nothing. */
  mmc_status (*kernel_facts)(mmci_device *device, const mmci_gemm *gemm, mmci_kernel_facts *out,
                             mmci_error *error);

  /* Groups (optional, all or none), by the rules of products. The group and what it points at need
   * not outlive prepare, nor the n addresses in operands the call of enqueue. */
  bool (*group_supports)(const mmci_device *device, const mmci_group *group);
  int64_t group_side; /* no group that is supported has a larger dimension; 0: some may */
  const char *(*group_name)(const mmci_device *device, const mmci_group *group);
  mmc_status (*group_prepare)(mmci_device *device, const mmci_group *group, mmci_group_kernel **out,
                              mmci_error *error);
  void (*group_release)(mmci_group_kernel *kernel);
  mmc_status (*group_enqueue)(mmci_queue *queue, const mmci_group_kernel *kernel,
                              const void *const *operands, void *c, mmci_error *error);

  mmc_status (*alloc)(mmci_device *device, size_t size_bytes, void **out, mmci_error *error);
  void (*dealloc)(mmci_device *device, void *memory);
  const mmci_device_async *async; /* NULL: operands are host memory and every call waits */

  /* The ordering problem (optional). */
  mmc_status (*order)(mmci_device *device, mmci_device_order *order, mmci_error *error);
} mmci_device_ops;

/* What a module exports: const mmci_device_ops *mmci_module_entry(void). */
typedef const mmci_device_ops *(*mmci_module_entry_fn)(void);

extern const mmci_device_ops mmci_device_ref;
extern const mmci_device_ops mmci_device_blas;

/* ---- the registry -------------------------------------------------------------------------- */

/* A kind of device, as kinds.c lists it. */
typedef struct mmci_device_kind {
  const char *name;           /* "cuda"; NULL ends the list */
  const mmci_device_ops *ops; /* NULL: in the module mmchain-NAME.so, or not built */
  bool is_module;             /* its devices have numbers: "cuda:1" */
  const char *meter;          /* that reads its joules, by name: "nvml" */
  const char *absent;         /* what to do when it is not here; NULL: it always is */
} mmci_device_kind;

extern const mmci_device_kind mmci_device_kinds[];

/* The kind of the device of a name, "cpu", "cuda" or "cuda:1", and its number, 0 where it has none;
 * NULL when there is no such name. */
const mmci_device_kind *mmci_device_kind_of(const char *name, int *index);

/* The names that there may be, "cpu, blas, ref, cuda, cuda:N", in text of that size. */
void mmci_device_names(char *text, size_t size);

/* Every kind of device, opened when first asked for, closed with the registry. Not locked: the
 * context is. */
typedef struct mmci_registry mmci_registry;

enum { MMCI_MODULE_PATH_SIZE = 4096 };

/* Writes the path of mmchain-DEVICE.so to path: in the folder given; when that is NULL, in the one
 * that the environment's MMCHAIN_MODULE_DIR names, which is ignored where privileges are raised;
 * without one, beside the library. Returns E_ARG, with what was expected in error, when the name is
 * too long or the environment names a relative path or a place that is not trusted: one that
 * belongs neither to root nor to the user, or that all may write to. */
mmc_status mmci_module_path(const char *given, const char *device, char path[MMCI_MODULE_PATH_SIZE],
                            mmci_error *error);

/* module_dir: where mmchain-*.so lie; copied. NULL: as mmci_module_path() finds them. */
mmc_status mmci_registry_create(const char *module_dir, mmci_registry **out, mmci_error *error);
void mmci_registry_destroy(mmci_registry *registry);

typedef struct mmci_opened {
  const mmci_device_ops *ops;
  mmci_device *device;
  const char *name; /* "blas", "cuda:0" */
} mmci_opened;

/* Opens "cpu" (blas when built with one, else ref), "ref", "blas", "cuda", "cuda:1" ...
 * Returns E_ARG (no such name, with those there are), E_UNSUPPORTED (known but not here: what is
 * missing), E_DEVICE, E_NOMEM. Everything belongs to the registry. */
mmc_status mmci_registry_open(mmci_registry *registry, const char *name, mmci_opened *out,
                              mmci_error *error);

/* The facts that an opened device tells. Returns E_UNSUPPORTED when it does not multiply the dtype.
 */
mmc_status mmci_opened_facts(const mmci_opened *on, mmc_dtype dtype, mmci_precision precision,
                             mmci_facts *out, mmci_error *error);

/* Entry index of the list that `mmchain info` shows; E_ARG past the last. */
mmc_status mmci_registry_describe(mmci_registry *registry, int index, mmc_device_info *out,
                                  mmci_error *error);

#endif
