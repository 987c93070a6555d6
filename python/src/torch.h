/* torch.h: matrices of PyTorch that want gradients, multiplied by PyTorch in the cheapest order. */
#ifndef MMCP_TORCH_H
#define MMCP_TORCH_H

#include "state.h"

/* set_torch(types, mm, matmul, multi_dot, is_grad_enabled): who multiplies what. types is a tuple
 * of the exact types of tensors. */
PyObject *mmcp_set_torch(PyObject *module, PyObject *args);

/* Multiplies the items of a list or a tuple by PyTorch, which records what the gradients need in
 * fewer instructions than a function that we could give it. Returns 1 with a new reference in *out;
 * 0 where they are not a few matrices of one dtype on the CPU that fit together, one of which wants
 * gradients; -1 with an exception set. */
int mmcp_torch_multiply(PyObject *sequence, PyObject **out);

#endif
