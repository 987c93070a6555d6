/* view.h: the memory of an array, whoever owns it: NumPy's by its binary interface or the buffer
 * protocol, others' by DLPack. */
#ifndef MMCP_VIEW_H
#define MMCP_VIEW_H

#include "dlpack.h"
#include "state.h"

enum { MMCP_HOST = -1, MMCP_MAX_NDIM = 64, MMCP_FEW_NDIM = 4 };

typedef struct mmcp_view {
  char *data;
  const int64_t *shape, *strides; /* strides NULL: C-contiguous */
  int64_t stride_bytes;           /* bytes of one unit of strides */
  int ndim;
  mmc_dtype dtype;
  int device; /* MMCP_HOST, or the number of a CUDA device */
  bool read_only;
  bool is_conj;    /* a tensor that is the conjugate of its memory, where that is asked for */
  bool is_swapped; /* elements are of the other byte order, where that is asked for */
  bool is_odd;     /* NumPy's elements that are swapped, or some of which are not aligned */
  /* These say whose the array is: NumPy's, that of a library with exchange functions, or, when
   * neither is set, a capsule's. */
  bool is_numpy;
  const dl_exchange *exchange;

  /* One of these keeps the memory. */
  Py_buffer buffer;              /* buffer.obj is NULL when none */
  PyObject *owner;               /* the object whose memory it is, or NULL */
  dl_managed_versioned *managed; /* the tensor of DLPack, or NULL */
  void *made;                    /* the new tensor of PyTorch (tensor.h), or NULL */
  void *copy; /* what elements and strides were written to, by malloc(), or NULL: see gather.h */
  union {
    dl_tensor tensor;
    /* NumPy's: sizes and strides, where shape points here: it is not copied */
    int64_t extents[2 * MMCP_FEW_NDIM];
  };
} mmcp_view;

/* How an array is read. The memory of a tensor of PyTorch is read with MMCP_READ_MEMORY though it
 * requires a gradient, by who sees to that, and knows that it is not lazily conjugated or negated;
 * with MMCP_READ_FACTOR also where it is lazily conjugated, by who looks at is_conj; and NumPy's
 * arrays of the other byte order or that are not aligned, which are no matrices yet. */
typedef enum mmcp_want {
  MMCP_READ,
  MMCP_WRITE,
  MMCP_READ_BF16,
  MMCP_WRITE_BF16,
  MMCP_READ_MEMORY,
  MMCP_READ_FACTOR
} mmcp_want;

/* Sees how NumPy's arrays begin, so that views need no buffers of them. -1: an exception is set. */
int mmcp_view_learn_numpy(void);
/* Finds the dtype, of which NumPy has one object, and the shape of a numpy.ndarray or one of a
 * subclass, as long as it has them; false where it is not known how such arrays begin. */
bool mmcp_numpy_shape(const PyObject *array, PyObject **dtype, int *ndim, const Py_ssize_t **shape);
bool mmcp_dtype_of_numpy(const PyObject *dtype, mmc_dtype *out);

/* Looks at a numpy.ndarray or numpy.memmap, a capsule of DLPack or an object whose type has the
 * exchange functions. With a _BF16 want, NumPy's uint16 is taken for bf16, which NumPy lacks.
 * Returns 1; 0 when it is none of these, of another dtype or not aligned; -1 with an exception set.
 */
int mmcp_view_acquire(PyObject *object, mmcp_want want, mmcp_view *out);
/* Makes a new tensor of the exchange functions' library. Returns 0, or -1 with an exception set. */
int mmcp_view_allocate(const dl_exchange *exchange, mmc_dtype dtype, int device, int ndim,
                       int64_t *shape, mmcp_view *out);
/* Makes an object of the new tensor, which it takes; NULL with an exception set. */
PyObject *mmcp_view_object(mmcp_view *view);
void mmcp_view_release(mmcp_view *view);

/* Returns a view's device by its name, "cpu" or "cuda:1"; NULL is the host's. */
int mmcp_device_number(const char *name);

/* Returns the exchange functions of an object's type; NULL when it has none. */
const dl_exchange *mmcp_exchange_of(PyObject *object);

/* Reads a tensor by the exchange functions of its type, for as long as it lives unchanged. Returns
 * 1; 0 where these are others, or it has no memory, as a sparse one; -1 with an exception set. */
int mmcp_borrow(PyObject *object, const dl_exchange *exchange, dl_tensor *out);

/* Says whether a tensor wants a gradient; returns -1 with an exception set. */
int mmcp_requires_grad(PyObject *object);
/* Says whether a tensor is of this dtype and no more than its memory or, where is_conj, the
 * conjugate of that: it wants no gradient and is not negated lazily. Returns -1 with an exception
 * set. */
int mmcp_is_plain(PyObject *object, mmc_dtype dtype, bool is_conj);

/* The stride of a dimension in bytes. */
int64_t mmcp_view_stride(const mmcp_view *view, int dimension);

/* The matrix in the last dimensions of a view: rows when has_row, columns when has_column; what it
 * lacks has one. False when it cannot be described by one leading dimension. */
bool mmcp_view_matrix(const mmcp_view *view, bool has_row, bool has_column, mmc_matrix *out);

/* Says whether elements lie in C order without gaps. */
bool mmcp_view_is_contiguous(const mmcp_view *view);
/* Says whether two views may have an element in common. */
bool mmcp_view_overlap(const mmcp_view *a, const mmcp_view *b);

/* The dtype as DLPack writes it, and as it reads it; that returns false for one that there is not.
 */
dl_dtype mmcp_dl_dtype(mmc_dtype dtype);
bool mmcp_dtype_of_dl(dl_dtype given, mmc_dtype *out);

#endif
