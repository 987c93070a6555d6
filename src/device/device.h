/* device.h: the contract of a device, and the registry that finds them.
 *
 * A device describes itself and runs products. It holds no opinion on what is fast: cost prices,
 * tune measures. It never prints, exits or aborts. "ref" and "blas" are compiled in; others are
 * modules, mmchain-NAME.so, loaded at run time, so that the library starts on a machine without
 * CUDA or MPI. A module exports one function, mmci_module_entry, and sees of the library only what
 * these headers declare. */
#ifndef MMCI_DEVICE_H
#define MMCI_DEVICE_H

#include "base/status.h"

/* Raised whenever a struct of this header changes; a module of another ABI is turned away. */
#define MMCI_DEVICE_ABI 2

/* ---- products ------------------------------------------------------------------------------ */

/* C = A B, C m x n, A m x k, B k x n, all >= 0. */
typedef struct mmci_gemm {
  mmc_dtype dtype;
  int64_t m, k, n;
} mmci_gemm;

/* An operand where it lies. Element (r, c) is data[r * ld + c], or data[c * ld + r] when trans,
 * conjugated when conj. A column-major matrix is a transposed row-major one. ld in elements. */
typedef struct mmci_operand {
  const void *data;
  int64_t ld;
  bool trans, conj;
} mmci_operand;

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

/* ---- who a device is ------------------------------------------------------------------------- */

/* Whatever changes how fast it is, for wisdom to be kept under: measured figures hold for a device
 * of the same identity alone. Texts with a final NUL, "" where there is nothing to say. */
typedef struct mmci_identity {
  char model[160];  /* of the processor or the card */
  char driver[160]; /* and runtime */
  char blas[160];   /* its build, and how many threads it runs */
} mmci_identity;

/* ---- the contract -------------------------------------------------------------------------- */

typedef struct mmci_device mmci_device; /* one opened device; each implementation's own */
typedef struct mmci_queue mmci_queue;   /* products run in the order they are enqueued */
typedef struct mmci_kernel mmci_kernel; /* a prepared product */

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

  /* Products (optional, all or none). supports: can, never should. prepare may allocate; enqueue
   * and sync must not. C is row-major, m x n, and is written whole (zeros when k is 0). Operands
   * do not overlap C. Asynchronous errors surface in sync. */
  bool (*supports)(const mmci_device *device, const mmci_gemm *gemm);
  const char *(*kernel_name)(const mmci_device *device, const mmci_gemm *gemm); /* static text */
  mmc_status (*prepare)(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                        mmci_error *error);
  void (*release)(mmci_kernel *kernel);
  mmc_status (*queue_open)(mmci_device *device, mmci_queue **out, mmci_error *error);
  void (*queue_close)(mmci_queue *queue);
  mmc_status (*enqueue)(mmci_queue *queue, const mmci_kernel *kernel, const mmci_operand *a,
                        const mmci_operand *b, void *c, int64_t ldc, mmci_error *error);
  mmc_status (*sync)(mmci_queue *queue, mmci_error *error);
  mmc_status (*alloc)(mmci_device *device, size_t size_bytes, void **out, mmci_error *error);
  void (*dealloc)(mmci_device *device, void *memory);

  /* The ordering problem (optional). */
  mmc_status (*order)(mmci_device *device, mmci_device_order *order, mmci_error *error);
} mmci_device_ops;

/* What a module exports: const mmci_device_ops *mmci_module_entry(void). */
typedef const mmci_device_ops *(*mmci_module_entry_fn)(void);

extern const mmci_device_ops mmci_device_ref;
extern const mmci_device_ops mmci_device_blas;

/* ---- the registry -------------------------------------------------------------------------- */

/* Every kind of device, opened when first asked for, closed with the registry. Not locked: the
 * context is. */
typedef struct mmci_registry mmci_registry;

/* module_dir: where mmchain-*.so lie; copied. */
mmc_status mmci_registry_create(const char *module_dir, mmci_registry **out, mmci_error *error);
void mmci_registry_destroy(mmci_registry *registry);

/* Opens "cpu" (blas when built with one, else ref), "ref", "blas", "cuda", "cuda:1" ...
 * Returns E_ARG (no such name, with those there are), E_UNSUPPORTED (known but not here: what is
 * missing), E_DEVICE, E_NOMEM. The device belongs to the registry. */
mmc_status mmci_registry_open(mmci_registry *registry, const char *name,
                              const mmci_device_ops **ops, mmci_device **device, mmci_error *error);

/* Entry index of the list that `mmchain info` shows; E_ARG past the last. */
mmc_status mmci_registry_describe(mmci_registry *registry, int index, mmc_device_info *out,
                                  mmci_error *error);

#endif
