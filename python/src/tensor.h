/* tensor.h: what PyTorch's functions of C++ say of a tensor, and a new tensor, in a tenth of the
 * time that its functions of Python and DLPack take.
 *
 * The object of a tensor points at another, of C++. Whether it does in this process, and whether
 * the functions are there and say what PyTorch says, learn_tensors() finds out; where they are not,
 * nothing is known, and PyTorch is asked as any library is. */
#ifndef MMCP_TENSOR_H
#define MMCP_TENSOR_H

#include "dlpack.h"
#include "state.h"

/* learn_tensors(types, plain, wanting, negated, conjugated, addresses): has exact tensors of these
 * types asked so from now on. The four are tensors on the CPU, of which the last three want a
 * gradient, are lazily negated, lazily conjugated; addresses are those of their objects of C++.
 * Returns whether that can be done. */
PyObject *mmcp_learn_tensors(PyObject *module, PyObject *args);

/* Returns what the object of a tensor holds behind what every object of Python's does: the address
 * of the object of C++. */
static inline char **mmcp_tensor_handle(PyObject *object) {
  return (char **)(void *)(object + 1);
}

/* Says whether an object is a tensor that the next three may be asked of. */
bool mmcp_tensor_is_known(PyObject *object);
bool mmcp_tensor_wants_gradient(PyObject *tensor);
bool mmcp_tensor_is_negated(PyObject *tensor);
bool mmcp_tensor_is_conjugated(PyObject *tensor);

/* Makes a new tensor in the host's memory, without gaps, and writes where its elements lie. Returns
 * what mmcp_tensor_object() makes an object of; NULL where nothing is known, or for another
 * library's exchange functions, or a large tensor, whose memory may lack. */
void *mmcp_tensor_make(const dl_exchange *exchange, mmc_dtype dtype, int ndim, const int64_t *shape,
                       const int64_t *strides, char **data);
/* Takes the new tensor; returns NULL with an exception set. */
PyObject *mmcp_tensor_object(void *made);
void mmcp_tensor_destroy(void *made);

#endif
