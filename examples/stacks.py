# %% [markdown]
# # Stacks of matrices, and powers
#
# Arrays of more than two dimensions are stacks of matrices, as for `numpy.matmul`; their chains are
# multiplied together.

# %%
from functools import reduce

import numpy as np

import mmchain

rng = np.random.default_rng(1)


def rotations(angles, axis):
    """A stack of rotations about an axis of space."""
    stack = np.zeros((len(angles), 3, 3))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    stack[:, axis, axis] = 1
    stack[:, i, i] = stack[:, j, j] = np.cos(angles)
    stack[:, j, i] = np.sin(angles)
    stack[:, i, j] = -stack[:, j, i]
    return stack


# %% [markdown]
# Ten thousand orientations from three angles each, applied to one cloud of points, that all share.

# %%
angles = rng.uniform(-np.pi, np.pi, (3, 10000))
chain = [rotations(angles[0], 2), rotations(angles[1], 1), rotations(angles[2], 2)]
points = rng.standard_normal((3, 8))
turned = mmchain.multi_dot([*chain, points])
expected = reduce(np.matmul, [*chain, points])
assert turned.shape == (10000, 3, 8)
assert np.abs(turned - expected).max() <= 1e-14
print(f"{turned.shape[0]} orientations, {np.abs(turned - expected).max():.1e} from NumPy")

# %% [markdown]
# Stacks broadcast: every one of 20 x 30 pairs of rotations.

# %%
pairs = mmchain.multi_dot([chain[0][:20, None], chain[1][:30], points])
assert np.allclose(pairs, chain[0][:20, None] @ chain[1][:30] @ points, rtol=0, atol=1e-14)

# %% [markdown]
# The same array several times is a power. Turning by 1/1000 of a full circle, 1000 times:

# %%
step = rotations([2 * np.pi / 1000], 0)[0]
assert np.abs(mmchain.multi_dot([step] * 1000) - np.eye(3)).max() <= 1e-12

# %% [markdown]
# A plan says what a batch costs.

# %%
print(mmchain.plan("f64:3x3x3x3x8@10000").explain())
