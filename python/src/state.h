/* state.h: what the extension keeps for the process: one context, the cache of plans, and the
 * objects of NumPy that it calls. All of it is guarded by the GIL. */
#ifndef MMCP_STATE_H
#define MMCP_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <mmchain.h>

#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *Py_NewRef(PyObject *object) {
  Py_INCREF(object);
  return object;
}
static inline PyObject *Py_XNewRef(PyObject *object) {
  Py_XINCREF(object);
  return object;
}
#endif

enum { MMCP_DTYPES = MMC_BOOL + 1 };

typedef struct mmcp_state {
  mmc_context *context; /* made when first needed */
  PyObject *module_dir; /* a path as bytes, or NULL: where the library looks by itself */
  PyObject *blas_paths; /* a list of paths as bytes, of which the first that is a BLAS is taken */
  /* Counts forks: what an earlier generation made belongs to threads that this process lacks. */
  uint64_t generation;
  bool cuda_used; /* whether this process, or one it was forked from, used CUDA */
  bool cuda_lost; /* whether a fork lost CUDA */
  /* A fork waits until no thread works without the GIL: the child would inherit the locks that the
   * BLAS holds meanwhile. */
  int64_t working, forking;
  bool tuning; /* whether some thread tunes */

  uint64_t idle_bytes; /* workspace of idle runs of cached plans */

  PyObject *ndarray, *memmap, *empty; /* of numpy */
  PyObject *dtypes[MMCP_DTYPES];
  /* Interned names. */
  PyObject *requires_grad, *is_neg, *is_conj, *time, *flops, *native, *stored, *cpu, *out,
      *objective;
} mmcp_state;

extern mmcp_state mmcp;

/* Makes the context where there is none. Returns -1 with an exception set. */
int mmcp_context_ensure(void);

/* Bracket work that is done without the GIL. Entering waits for forks to be over. */
PyThreadState *mmcp_enter(void);
void mmcp_leave(PyThreadState *thread);

/* An mmc_progress_fn: lets Python's signal handlers run, as that of Ctrl-C, while no product is
 * under way. What they call may multiply or fork. user is where the thread is kept that
 * mmcp_enter() has returned. */
int mmcp_check_signals(void *user, double done);

/* Sets the exception for a status that is not MMC_OK, with the context's message; returns -1. */
int mmcp_raise(mmc_status status);

/* Finds the dtype that mmc_dtype_name() calls so; returns whether there is one. */
bool mmcp_dtype_of_name(const char *name, mmc_dtype *out);

/* The text of a str; NULL for None. Anything else raises TypeError, naming the argument. */
int mmcp_text(PyObject *object, const char *argument, const char **out);

#endif
