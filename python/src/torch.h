/* torch.h: matrices of PyTorch that PyTorch multiplies, in the cheapest order: those that want
 * gradients, and on the CPU the largest and the smallest. */
#ifndef MMCP_TORCH_H
#define MMCP_TORCH_H

#include "state.h"

struct mmcp_call;
struct mmcp_plan;

/* set_torch(types, mm, mv, dot, matmul, multi_dot, is_grad_enabled, by_us, precision, has_bf16):
 * who multiplies what. types is a tuple of the exact types of tensors; by_us(matrices, dims)
 * returns a product, or None; precision() the arithmetic that products of f32 are computed in;
 * has_bf16 says whether products of bfloat16 are oneDNN's on the CPU. */
PyObject *mmcp_set_torch(PyObject *module, PyObject *args);

/* Multiplies the items of a list or a tuple by PyTorch, which records what the gradients need in
 * fewer instructions than a function that we could give it, or, where there are many small
 * matrices, by by_us. Returns 1 with a new reference in *out; 0 where they are not such matrices of
 * one dtype that fit together, on the CPU or, where anywhere says so, on a GPU, one of which wants
 * gradients, or on the CPU two very small or large ones; -1 with an exception set. */
int mmcp_torch_multiply(PyObject *sequence, bool anywhere, PyObject **out);

/* Does so in the order of a plan, for factors on the CPU that want gradients. Returns 0 also where
 * the plan is for others, or asks for more than PyTorch's products do. */
int mmcp_torch_multiply_by(struct mmcp_plan *plan, PyObject *sequence, PyObject **out);

/* Multiplies a call's factors, tensors on the CPU that want no gradients, in the order of a plan
 * for them, where PyTorch's products take less time than ours. Returns as mmcp_torch_multiply(). */
int mmcp_torch_execute(const struct mmcp_call *c, PyObject *const *items, const mmc_plan *plan,
                       PyObject **out);

/* Returns how many multiplications one chain of the call may take, so that the mean of its products
 * surely is none that PyTorch computes in less time than we; 0 where there is no such number. */
double mmcp_torch_most_by_us(const struct mmcp_call *c);

/* Says whether PyTorch can multiply the call's factors, tensors on a GPU, as far as these tell. */
bool mmcp_torch_can(const struct mmcp_call *c, PyObject *const *items);
/* Multiplies them in the order of fewest multiplications. Returns as mmcp_torch_multiply(), 0 where
 * PyTorch was asked for products of f32 in fewer bits. */
int mmcp_torch_execute_new(const struct mmcp_call *c, PyObject *const *items, PyObject **out);

#endif
