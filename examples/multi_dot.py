# %% [markdown]
# # A chain of matrices, in the cheapest order
#
# Run it as a script, or cell by cell as a notebook.

# %%
import numpy as np

import mmchain

rng = np.random.default_rng(1)
dims = [30, 35, 15, 5, 10, 20, 25]
matrices = [rng.standard_normal(shape) for shape in zip(dims, dims[1:])]

# %% [markdown]
# What does the product cost, and in which order?

# %%
plan = mmchain.plan(matrices)
print(plan.explain())
print(plan.order)
print(f"predicted: {plan.predicted_seconds:.1e} s")

# %% [markdown]
# The prediction is a model's until `mmchain.tune([matrices])` has measured what runs best here.
#
# Multiply, and compare with NumPy.

# %%
product = mmchain.multi_dot(matrices)
expected = np.linalg.multi_dot(matrices)
error = np.linalg.norm(product - expected) / np.linalg.norm(expected)
print(f"relative difference to numpy.linalg.multi_dot: {error:.1e}")
assert error <= 1e-13

# %% [markdown]
# The same shapes again and again: the plan executes them without planning, into memory of yours.

# %%
out = np.empty_like(expected)
for _ in range(3):
    plan.execute(matrices, out)
assert np.array_equal(out, product)

# %% [markdown]
# A notebook shows the tree when a cell ends in `plan`; a script writes it.

# %%
plan.save("tree.svg")
plan

# %% [markdown]
# Code that calls NumPy's multi_dot need not change.

# %%
with mmchain.numpy_multi_dot():
    assert np.array_equal(np.linalg.multi_dot(matrices), product)
