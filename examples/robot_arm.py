# %% [markdown]
# # A robot arm's Jacobian
#
# Seven joints turn, each in the frame of the one before: where the hand is, is a product of seven 4 x 4
# matrices. How it moves when joint i turns is that product with factor i differentiated, for every i:
# the gradients of the product, which are computed together.

# %%
import numpy as np

import mmchain

# Denavit and Hartenberg's parameters of an arm with seven joints: offset, length, twist.
ARM = [(0.34, 0, -np.pi / 2), (0, 0, np.pi / 2), (0.4, 0, np.pi / 2), (0, 0, -np.pi / 2),
       (0.4, 0, -np.pi / 2), (0, 0, np.pi / 2), (0.126, 0, 0)]  # fmt: skip


def joint(angle, offset, length, twist):
    """From the frame of one joint to the next; and the same differentiated by the angle."""
    c, s, ct, st = np.cos(angle), np.sin(angle), np.cos(twist), np.sin(twist)
    there = [[c, -s * ct, s * st, length * c], [s, c * ct, -c * st, length * s], [0, st, ct, offset], [0, 0, 0, 1]]
    slope = [[-s, -c * ct, c * st, -length * s], [c, -s * ct, s * st, length * c], [0] * 4, [0] * 4]
    return np.array(there), np.array(slope)


def hand(angles):
    return mmchain.multi_dot([joint(a, *link)[0] for a, link in zip(angles, ARM)])[:3, 3]


def jacobian(angles):
    """How the hand's three coordinates change with the seven angles."""
    frames, slopes = zip(*(joint(a, *link) for a, link in zip(angles, ARM)))
    rows = []
    for axis in range(3):
        coordinate = np.zeros((4, 4))
        coordinate[axis, 3] = 1
        _, gradients = mmchain.gradients(list(frames), coordinate)
        rows.append([np.sum(g * slope) for g, slope in zip(gradients, slopes)])
    return np.array(rows)


# %% [markdown]
# It is what differences say.

# %%
angles = np.array([0.1, 0.5, -0.2, -1.1, 0.3, 0.8, 0])
differences = [(hand(angles + d) - hand(angles - d)) / 2e-6 for d in 1e-6 * np.eye(7)]
assert np.abs(jacobian(angles) - np.transpose(differences)).max() < 1e-8

# %% [markdown]
# With it, the hand finds a point by Newton's method: the least change of angles that leads there.

# %%
goal = np.array([0.4, 0.3, 0.6])
for _ in range(8):
    angles += np.linalg.pinv(jacobian(angles)) @ (goal - hand(angles))
assert np.abs(hand(angles) - goal).max() < 1e-12
print(f"the hand is at {np.round(hand(angles), 3)} with angles {np.round(angles, 3)}")
