/* torch.h: matrices of PyTorch that want gradients, multiplied by PyTorch in the cheapest order. */
#ifndef MMCP_TORCH_H
#define MMCP_TORCH_H

#include "state.h"

/* set_torch(types, mm, matmul, multi_dot, is_grad_enabled, by_us): who multiplies what. types is a
 * tuple of the exact types of tensors; by_us(matrices, dims) returns a product, or None. */
PyObject *mmcp_set_torch(PyObject *module, PyObject *args);

/* Multiplies the items of a list or a tuple by PyTorch, which records what the gradients need in
 * fewer instructions than a function that we could give it, or, where there are many small
 * matrices, by by_us. Returns 1 with a new reference in *out; 0 where they are not such matrices of
 * one dtype that fit together, on the CPU or, where anywhere says so, on a GPU, one of which wants
 * gradients; -1 with an exception set. */
int mmcp_torch_multiply(PyObject *sequence, bool anywhere, PyObject **out);

#endif
