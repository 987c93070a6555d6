/* glance.h: whether a tensor of PyTorch is what it was, in less time than PyTorch takes to say what
 * it is.
 *
 * The object of a tensor points at another, of C++, that holds the tensor's sizes, strides, dtype,
 * device and whether it is lazily conjugated or negated. Where none of its bytes has changed, all
 * of that is as it was, and what is kept elsewhere is asked for: where the memory lies, and whether
 * a gradient is wanted. Which bytes these are is found out in this process, by changing tensors in
 * every way and looking at what changes (_glance.py); where they show less than all, there is no
 * glance, and PyTorch is asked as before. */
#ifndef MMCP_GLANCE_H
#define MMCP_GLANCE_H

#include "view.h"

/* What was seen of a tensor. */
typedef struct mmcp_glance {
  const char *tensor; /* the object of C++: compared first; NULL: nothing was seen */
  uint64_t *words;    /* copies of its words, mmcp_glance_words() of them */
} mmcp_glance;

/* tensor_bytes(tensor, address): the bytes at the address, of the object of C++ that the tensor
 * points at; None where it does not. */
PyObject *mmcp_tensor_bytes(PyObject *module, PyObject *args);

/* set_glance(type, first, end, devices, plain, wanting): of exact tensors of this type the bytes
 * from the first to before the end tell all that bytes tell. Devices says whether there may be
 * several, so that PyTorch is to be asked for which. Of the last two, which are tensors, the second
 * wants a gradient. Returns whether glances are taken from now on. */
PyObject *mmcp_set_glance(PyObject *module, PyObject *args);

/* Returns how many words a glance at tensors of a type has; 0 where there is none. Asks
 * _glance.py when a type comes first. */
size_t mmcp_glance_words(PyTypeObject *type);

/* Takes a glance at a tensor of such a type. Then PyTorch is to be asked, and the glance confirmed
 * with what it said, a tensor that is no more than its memory; with NULL it is none. */
void mmcp_glance_take(PyObject *object, mmcp_glance *out);
void mmcp_glance_confirm(PyObject *object, const dl_tensor *now, mmcp_glance *glance);

/* Says whether a tensor is as it was at the glance and lies at data; false as well where that is
 * not to be seen. */
bool mmcp_glance_same(PyObject *object, const mmcp_glance *glance, const void *data, int device);

/* Has the processor fetch what mmcp_glance_same() will look at. */
void mmcp_glance_ahead(const mmcp_glance *glance);

#endif
