# %% [markdown]
# # A sliding window
#
# A particle hops among 12 places of a ring, by probabilities that change with every step. Where does
# what was at place 0 half an hour ago lie now? That is the product of the last 1800 matrices, one a
# second; each second brings a new one and drops the oldest. Late reports correct a second in the past.

# %%
from functools import reduce

import numpy as np

import mmchain

PLACES, WINDOW = 12, 1800
rng = np.random.default_rng(1)


def hops():
    """The probabilities of staying and of hopping to both neighbours, row by row."""
    weights = rng.dirichlet([500, 1, 1], size=PLACES)
    matrix = np.zeros((PLACES, PLACES))
    for step, column in zip((0, 1, -1), weights.T):
        matrix[np.arange(PLACES), (np.arange(PLACES) + step) % PLACES] += column
    return matrix


seconds = [hops() for _ in range(WINDOW)]
window = mmchain.Ranges(seconds)
window.product()

# %% [markdown]
# Every second some ten products are computed, not 1800: those of neighbours are kept in a tree.

# %%
for second in range(200):
    seconds.append(hops())
    window.append(seconds[-1])
    window.pop_front()
    if second % 10 == 0:  # a late report
        late = int(rng.integers(WINDOW))
        seconds[-WINDOW + late] = hops()
        window.update(late, seconds[-WINDOW + late])
    before = window.products
    moved = window.product()
    assert window.products - before <= 3 * 11 + 1

expected = reduce(np.matmul, seconds[-WINDOW:])
assert np.abs(moved - expected).max() <= 1e-13
assert np.abs(moved.sum(axis=1) - 1).max() <= 1e-12
print(f"after half an hour, from place 0: {np.round(moved[0], 3)}")

# %% [markdown]
# Any part of the window is a few products as well: the last minute alone.

# %%
minute = window.product(WINDOW - 60, WINDOW)
assert np.abs(minute - reduce(np.matmul, seconds[-60:])).max() <= 1e-14
print(f"after a minute: {np.round(minute[0], 3)}")
