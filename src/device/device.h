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
#include "chain/scan.h"
#include "chain/structured.h"
#include "chain/tree_node.h"

/* Raised whenever a struct of this header changes; a module of another ABI is turned away. */
#define MMCI_DEVICE_ABI 28

/* ---- transfers ----------------------------------------------------------------------------- */

/* Lines of bytes that lie pitch bytes apart. */
typedef struct mmci_transfer {
  void *to;
  const void *from;
  int64_t to_pitch, from_pitch, lines, line_bytes;
} mmci_transfer;

/* ---- the ordering problem ------------------------------------------------------------------ */

/* The ordering problem by a table on a device (Nishida, Ito and Nakano 2011, and our tiled form),
 * for multiplications. */
typedef struct mmci_device_order {
  int32_t n;
  const int64_t *dims;   /* n+1 dims */
  const char *kernel;    /* "auto", "tiled", "thread", "block", "blocks", "paper" */
  int threads_per_block; /* how many threads a block has; 0 means the fastest */
  int blocks_per_entry;  /* how many blocks work on an entry; 0 means the fastest */
  mmc_progress_fn progress;
  void *progress_user;
  mmc_write_fn profile; /* writes a profile, as in mmc_order_options */
  void *profile_user;
  /* The device answers with these. */
  int32_t *splits;  /* n-1, from the caller: the split of every product, parents before
                       children, right before left, ties as order.h says */
  mmc_count *table; /* NULL, or n(n+1)/2 from the caller: the least multiplications of the
                       sub-chain (i, j), i < j, at i*n - i(i-1)/2 + j-i-1 */
  mmc_count multiplications;
  double seconds;          /* seconds of the solve by the device's own clock */
  const char *kernel_used; /* static text: "tiled f64" */
} mmci_device_order;

/* ---- what a kernel takes of the chip ---------------------------------------------------------
 */

/* What a block of threads of a prepared product takes; where there are several kernels, those of
 * the one with the most registers and shared memory. */
typedef struct mmci_kernel_facts {
  int64_t registers_per_thread, threads_per_block, shared_bytes_per_block;
} mmci_kernel_facts;

/* ---- who a device is ------------------------------------------------------------------------- */

/* Whatever changes how fast the device is, for wisdom to be kept under: measured figures hold only
 * for a device of the same identity. Texts have a final NUL, and are "" where there is nothing to
 * say. */
typedef struct mmci_identity {
  char model[160];  /* the model of the processor or the card */
  char driver[160]; /* the driver and the version of its runtime */
  char blas[160];   /* the BLAS's build, and how many threads it runs */
  /* The card's place on the PCI bus, as its driver spells it; it is no part of the key of
   * wisdom. */
  char bus_id[32];
} mmci_identity;

/* ---- the contract -------------------------------------------------------------------------- */

typedef struct mmci_device mmci_device; /* one opened device; each implementation has its own */
typedef struct mmci_queue mmci_queue;   /* work is done in the order in which it is enqueued */
typedef struct mmci_kernel mmci_kernel; /* a prepared product */
typedef struct mmci_group_kernel mmci_group_kernel; /* a prepared group */
typedef struct mmci_scan_kernel mmci_scan_kernel;   /* a prepared scan */
typedef struct mmci_structured_kernel
    mmci_structured_kernel;           /* a prepared product with structure */
typedef struct mmci_event mmci_event; /* a point in a queue that other queues can wait for */
typedef struct mmci_graph mmci_graph; /* captured work, to be launched as one */

/* A matrix as it lies, and a copy of it with more or fewer lines and elements of a line; the copy
 * has zeros where the matrix has no element. Data are aligned to the elements' real type; the
 * copies do not overlap. */
typedef struct mmci_resizing {
  const void *from;
  void *to;
  int64_t lines, length, ld, to_lines, to_length, to_ld;
} mmci_resizing;

enum { MMCI_RESIZED = 3 }; /* matrices that are copied at once at most */

/* What a device with memory of its own can do besides, without waiting for any of it. Its products
 * take addresses of its own memory only. No function here but create, capture_end and memory
 * allocates; asynchronous errors surface in a later call, in sync at the latest. */
typedef struct mmci_device_async {
  int queues; /* more queues than these at work together gain nothing; at least 1 */

  /* Tells the bytes of the device's memory: those free now, and all. */
  mmc_status (*memory)(mmci_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                       mmci_error *error);
  /* Allocates page-locked host memory, to and from which transfers go at full speed. */
  mmc_status (*alloc_pinned)(mmci_device *device, size_t size_bytes, void **out, mmci_error *error);
  void (*dealloc_pinned)(mmci_device *device, void *memory);

  /* Lets the queue stand for the caller's stream from now on (a cudaStream_t; NULL is CUDA's
   * default stream, which is there as long as the device), or for its own again. */
  void (*queue_attach)(mmci_queue *queue, void *stream);
  void (*queue_detach)(mmci_queue *queue);

  /* Copy from host to device and back. The host memory, of any kind, must stay until sync. upload
   * has often read all of it on return; what download writes is there only after sync. The device
   * stages through pinned memory as it sees fit. */
  mmc_status (*upload)(mmci_queue *queue, const mmci_transfer *transfer, mmci_error *error);
  mmc_status (*download)(mmci_queue *queue, const mmci_transfer *transfer, mmci_error *error);
  /* Copies a matrix within device memory: to is rows x cols, with element (r, c) at r * ld + c, or
   * at c * ld + r when to_trans. */
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
  /* (optional, both or none) Make events that a time can be read off, and read the seconds by the
   * device's clock between two that were recorded on one queue and waited for. */
  mmc_status (*timer_create)(mmci_device *device, mmci_event **out, mmci_error *error);
  mmc_status (*seconds_between)(mmci_event *from, mmci_event *to, double *seconds,
                                mmci_error *error);

  /* What this queue, and those that wait for its events, are given between begin and end is
   * recorded and not done. upload and download cannot be captured. capture_end ends the capture on
   * failure as well. A graph is launched on any queue of the device. */
  mmc_status (*capture_begin)(mmci_queue *queue, mmci_error *error);
  mmc_status (*capture_end)(mmci_queue *queue, mmci_graph **out, mmci_error *error);
  void (*graph_destroy)(mmci_graph *graph);
  mmc_status (*graph_launch)(mmci_queue *queue, mmci_graph *graph, mmci_error *error);
  /* Says whether somebody is capturing this stream, given as to queue_attach. */
  bool (*is_capturing)(mmci_device *device, void *stream);

  /* (optional) Lets copy on queues of this device read the memory of another one of the kind, and
   * event_wait wait for its events. *bytes_per_s becomes what a copy from there is taken to reach.
   * Devices may be joined again. */
  mmc_status (*join)(mmci_device *device, mmci_device *other, double *bytes_per_s,
                     mmci_error *error);
} mmci_device_async;

/* Slots marked (optional) may be NULL, which means that the device cannot do that. */
typedef struct mmci_device_ops {
  uint32_t abi, size; /* MMCI_DEVICE_ABI, sizeof(mmci_device_ops) */
  const char *name;   /* the device's name, as the command and wisdom spell it */

  /* Counts the devices. A count of 0 is no error; the error's text then says what is missing. Of
   * E_ARG, that what was asked for is wrong, nothing else takes the place as "cpu". */
  mmc_status (*probe)(int *count, mmci_error *error);
  mmc_status (*open)(int index, mmci_device **out, mmci_error *error);
  void (*close)(mmci_device *device);
  /* Describes the device for people, in one line of at most size bytes with the final NUL. */
  void (*describe)(const mmci_device *device, char *text, size_t size);
  /* (optional) Says the same again as long as the facts are the same. */
  void (*identify)(const mmci_device *device, mmci_identity *out);
  /* (with products) Tells what products and groups of this dtype and precision are taken to cost
   * until they are measured. Facts that the driver knows are the device's own; the others may be
   * those of one machine of the kind. */
  void (*facts)(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                mmci_facts *out);

  /* Products (optional, all or none). supports says what the device can do, never what it should;
   * of sums that are no chains, as mmci_sums says, which have bits of their own, that it has them.
   * prepare may allocate; enqueue and sync must not,
   * but for room that a queue keeps, of which enqueue may find that it needs more. C is written
   * whole (zeros when k is 0) and is read only to accumulate. Operands do not overlap C. */
  bool (*supports)(const mmci_device *device, const mmci_gemm *gemm);
  int (*variants)(mmci_device *device,
                  const mmci_gemm *gemm); /* how many variants there are besides the first */
  /* (optional) Returns the variant that is known to be the fastest without measuring it, for those
   * who need not have the bits of the first; 0 where that is the first. */
  int (*advised)(const mmci_device *device, const mmci_gemm *gemm);
  /* Returns static text; may return NULL for a variant that does not exist. */
  const char *(*kernel_name)(const mmci_device *device, const mmci_gemm *gemm);
  mmc_status (*prepare)(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                        mmci_error *error);
  /* Releases a prepared product; where it holds memory, waits for what was enqueued with it. */
  void (*release)(mmci_kernel *kernel);
  /* (optional) Returns how many bytes of the device's memory the product holds from prepare to
   * release; prepare takes less where there is not so much. Without this slot no product holds
   * any. */
  uint64_t (*scratch_bytes)(const mmci_device *device, const mmci_gemm *gemm);
  mmc_status (*queue_open)(mmci_device *device, mmci_queue **out, mmci_error *error);
  void (*queue_close)(mmci_queue *queue); /* waits for what is enqueued */
  mmc_status (*enqueue)(mmci_queue *queue, const mmci_kernel *kernel, const void *a, const void *b,
                        void *c, mmci_error *error);
  mmc_status (*sync)(mmci_queue *queue, mmci_error *error);
  /* (optional) Tells the facts of a product that prepare takes, and executes nothing. */
  mmc_status (*kernel_facts)(mmci_device *device, const mmci_gemm *gemm, mmci_kernel_facts *out,
                             mmci_error *error);

  /* Groups (optional, all or none), by the rules of products. The group and what it points at may
   * be released after prepare, and the n addresses in operands after enqueue has returned. */
  bool (*group_supports)(const mmci_device *device, const mmci_group *group);
  int64_t group_side; /* no group that is supported has a larger dimension; 0 means no limit */
  const char *(*group_name)(const mmci_device *device, const mmci_group *group);
  mmc_status (*group_prepare)(mmci_device *device, const mmci_group *group, mmci_group_kernel **out,
                              mmci_error *error);
  void (*group_release)(mmci_group_kernel *kernel);
  mmc_status (*group_enqueue)(mmci_queue *queue, const mmci_group_kernel *kernel,
                              const void *const *operands, void *c, mmci_error *error);

  /* (optional) Returns how long the group takes, launch included, by formulas fitted as those
   * of facts' model; NAN where there are none, and for every group that is not supported. *error
   * becomes the share by which nine of ten such times are off at most, where there is one. */
  double (*group_seconds)(const mmci_device *device, const mmci_group *group, double *error);
  /* (optional) Tells the most that the group takes by its products as plain calls, as it was
   * measured; returns false where its time and its joules are not surely less, and for every group
   * that is not supported. Formulas of two times are doubted more than most groups gain. */
  bool (*group_share)(const mmci_device *device, const mmci_group *group, mmci_group_share *out);

  /* Products whose operands have structure, solves and inverses (optional). structured_lacks says,
   * as a set of 1 << kernel, in place of which kernels others are to be planned; NULL stands for
   * none. structured_check says whether the device has a kernel and, where
   * inverts is set, forms inverses; it reads nothing else. Returns E_UNSUPPORTED, and names what is
   * missing. A device has structured, on host memory and done on return, or the three slots behind
   * it, which work by the rules of products on memory of its own. Both may overwrite S where they
   * factorise. *pivot becomes 0, or the row, from 1, at which a matrix to be inverted is singular
   * or not definite; then Z is undefined. Return E_NOMEM. Of structured_enqueue, which computes
   * SCALE, PERMUTE, BAND, SYMM, TRMM and TRTRMM from S and B, pivot is on the device, and written
   * only where mmci_structured_has_pivot() says so; then known, unless it is NULL, is recorded once
   * it is written, which may be long before Z is. */
  uint32_t (*structured_lacks)(const mmci_device *device, mmc_dtype dtype);
  mmc_status (*structured_check)(mmci_device *device, const mmci_structured *ask,
                                 mmci_error *error);
  mmc_status (*structured)(mmci_device *device, const mmci_structured *product, void *z, void *s,
                           int64_t *pivot, mmci_error *error);
  mmc_status (*structured_prepare)(mmci_device *device, const mmci_structured *product,
                                   mmci_structured_kernel **out, mmci_error *error);
  mmc_status (*structured_enqueue)(mmci_queue *queue, const mmci_structured_kernel *kernel, void *z,
                                   void *s, const void *b, int32_t *pivot, mmci_event *known,
                                   mmci_error *error);
  void (*structured_release)(mmci_structured_kernel *kernel);

  mmc_status (*alloc)(mmci_device *device, size_t size_bytes, void **out, mmci_error *error);
  void (*dealloc)(mmci_device *device, void *memory);
  const mmci_device_async *async; /* NULL when operands are host memory and every call waits */

  /* (optional) Solves the ordering problem. */
  mmc_status (*order)(mmci_device *device, mmci_device_order *order, mmci_error *error);

  /* Scans (optional, all or none), by the rules of products. Without them scans are made of
   * products. Every place in an enqueued scan is of the device's memory; states overlap nothing
   * that is read. */
  bool (*scan_supports)(const mmci_device *device, const mmci_scan *scan);
  mmc_status (*scan_prepare)(mmci_device *device, const mmci_scan *scan, mmci_scan_kernel **out,
                             mmci_error *error);
  void (*scan_release)(mmci_scan_kernel *kernel);
  void (*scan_facts)(const mmci_scan_kernel *kernel, mmci_scan_facts *out);
  mmc_status (*scan_enqueue)(mmci_queue *queue, const mmci_scan_kernel *kernel,
                             const mmci_scan_places *places, mmci_error *error);

  /* (optional, both or neither) Computes a product or a batch on host memory now, without preparing
   * it, with the bits that it has when it is prepared and enqueued, alone or with its chain.
   * takes_at_once says for which products: for none that take room or pieces. beside says that
   * other products of the chain do not wait for this one, so that threads might compute them side
   * by side. */
  bool (*takes_at_once)(const mmci_device *device, const mmci_gemm *gemm, bool beside);
  void (*at_once)(mmci_device *device, const mmci_gemm *gemm, const void *a, const void *b,
                  void *c);

  /* (optional) Computes nodes that do not wait for one another, each of batch chains, forwards or
   * back. No side of theirs is larger than `side`, which is MMCI_NODE_SIDE at most; the dtype is no
   * integer. The nodes are in the device's memory. */
  mmc_status (*nodes_enqueue)(mmci_queue *queue, mmc_dtype dtype, int side,
                              const mmci_tree_node *nodes, int64_t count, int64_t batch, bool back,
                              mmci_error *error);
  /* (optional, both or none) Says whether the device goes up a tree of matrices of this side, and
   * does so, for batch chains: all products of a way by one call. */
  bool (*climb_supports)(const mmci_device *device, mmc_dtype dtype, int64_t side);
  mmc_status (*climb_enqueue)(mmci_queue *queue, mmc_dtype dtype, const mmci_climb *climb,
                              int64_t batch, mmci_error *error);
  /* (optional) Returns what an element of the product is off by at most, as a tolerance of its
   * rule. Without this slot products are as exact as mmci_gemm_error_bound() says. */
  double (*error_bound)(const mmci_device *device, const mmci_gemm *gemm);
  /* (optional) Lets a prepared product use what another one makes of an operand before it
   * multiplies: operand `which` of `kernel`, 0 for A and 1 for B, is operand `of` of `from`. `from`
   * is enqueued before it each time, on the same queue, or is the product itself, and the operand
   * does not change in between; addresses are multiples of an element's bytes. It holds until it is
   * said again; with `from` NULL the product makes its own. Returns whether anything is shared. */
  bool (*share)(mmci_kernel *kernel, int which, const mmci_kernel *from, int of);
} mmci_device_ops;

/* A module exports one function: const mmci_device_ops *mmci_module_entry(void). */
typedef const mmci_device_ops *(*mmci_module_entry_fn)(void);

extern const mmci_device_ops mmci_device_ref;
extern const mmci_device_ops mmci_device_blas;

/* Loads the CBLAS of mmci_device_blas for the whole process: a file by its absolute path, a name
 * that dlopen() looks for, or "own", which means what the library finds by itself. It does nothing
 * once there is one, or after the device was looked for. Returns: E_UNSUPPORTED, where that file is
 * no CBLAS. */
mmc_status mmci_cblas_choose(const char *path, mmci_error *error);

/* ---- the registry -------------------------------------------------------------------------- */

/* A kind of device, as kinds.c lists it. */
typedef struct mmci_device_kind {
  const char *name; /* "cuda"; NULL ends the list */
  /* The table of the kind; NULL when it is in the module mmchain-NAME.so, or was not built. */
  const mmci_device_ops *ops;
  bool is_module;     /* whether its devices are in a module and have numbers: "cuda:1" */
  const char *meter;  /* name of the meter that reads its joules: "nvml" */
  const char *absent; /* what to do when it is not here; NULL when it always is */
  /* (optional) Loads the library that does its products, for the whole process. */
  mmc_status (*choose_library)(const char *path, mmci_error *error);
} mmci_device_kind;

extern const mmci_device_kind mmci_device_kinds[];

/* Has every kind that multiplies by a CBLAS load this one, as mmci_cblas_choose() does. */
mmc_status mmci_devices_choose_blas(const char *path, mmci_error *error);

/* Returns the kind of the device of a name, "cpu", "cuda" or "cuda:1", and its number, 0 where the
 * name has none; NULL when there is no such name. */
const mmci_device_kind *mmci_device_kind_of(const char *name, int *index);

/* Writes the names that there may be, "cpu, blas, ref, cuda, cuda:N", at most size bytes. */
void mmci_device_names(char *text, size_t size);

/* The registry holds every kind of device, each opened when first asked for and closed with the
 * registry. It is not locked; the context that owns it is. */
typedef struct mmci_registry mmci_registry;

/* Makes a registry. module_dir is the directory of mmchain-*.so and is copied; when it is NULL,
 * mmci_module_path() finds them. */
mmc_status mmci_registry_create(const char *module_dir, mmci_registry **out, mmci_error *error);
void mmci_registry_destroy(mmci_registry *registry);
/* Returns the directory that was given, which may be NULL. */
const char *mmci_registry_module_dir(const mmci_registry *registry);

typedef struct mmci_opened {
  const mmci_device_ops *ops;
  mmci_device *device;
  const char *name; /* "blas", "cuda:0" */
  /* What it said of its memory, see free_memory.h; NULL where nothing is remembered. */
  struct mmci_free_memory *free_memory;
} mmci_opened;

/* Opens "cpu" (blas where a CBLAS is found, else ref), "ref", "blas", "cuda", "cuda:1" ...
 * Returns E_ARG (no such name; the error lists those there are), E_UNSUPPORTED (the name is known
 * but the device is not here; the error says what is missing), E_DEVICE, E_NOMEM. The registry owns
 * what it opens. */
mmc_status mmci_registry_open(mmci_registry *registry, const char *name, mmci_opened *out,
                              mmci_error *error);

/* Says whether a name stands for several devices of one kind: "cuda:all", "cuda:0,1". */
bool mmci_device_names_several(const char *name);
/* Opens the devices of such a name, at most `most`. Returns what mmci_registry_open() does. */
mmc_status mmci_registry_open_several(mmci_registry *registry, const char *name, mmci_opened *out,
                                      int32_t most, int32_t *count, mmci_error *error);

/* Checks that the device multiplies the dtype by the arithmetic of the rule. Returns
 * E_UNSUPPORTED. */
mmc_status mmci_opened_check_rule(const mmci_opened *on, mmc_dtype dtype, const mmci_rule *rule,
                                  mmci_error *error);

/* Tells the facts of an opened device. Returns E_UNSUPPORTED when it does not multiply the
 * dtype. */
mmc_status mmci_opened_facts(const mmci_opened *on, mmc_dtype dtype, mmci_precision precision,
                             mmci_facts *out, mmci_error *error);

/* Describes entry index of the list that `mmchain info` shows. Returns E_ARG past the last one. */
mmc_status mmci_registry_describe(mmci_registry *registry, int index, mmc_device_info *out,
                                  mmci_error *error);

#endif
