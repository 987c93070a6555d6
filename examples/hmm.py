# %% [markdown]
# # The states of a hidden Markov model
#
# A model of n states moves by a matrix of probabilities and emits a symbol in each state. How likely
# are the symbols that were seen, and in which state was the model at each time? Both are running
# products: the forward probabilities of the symbols so far, the backward ones of those to come.

# %%
import numpy as np

import mmchain

rng = np.random.default_rng(1)
states, symbols, length = 4, 6, 2000
move = rng.dirichlet(np.ones(states), states)
emit = rng.dirichlet(np.ones(symbols), states)
start = np.full(states, 1 / states)

# %% [markdown]
# Symbols that the model emits.

# %%
seen = np.empty(length, int)
state = rng.choice(states, p=start)
for t in range(length):
    seen[t] = rng.choice(symbols, p=emit[state])
    state = rng.choice(states, p=move[state])

# %% [markdown]
# A step takes the probability of each state to that of the next, with the symbol seen there. Scaled
# by the mean probability of a symbol, the products stay near 1.

# %%
steps = move[None] * emit[:, seen].T[:, None, :] * symbols
first = start * emit[:, seen[0]] * symbols
forward = mmchain.recurrence(steps[1:].swapaxes(1, 2), first)
backward = mmchain.recurrence(steps[1:], np.ones(states), reverse=True)
forward = np.concatenate([first[None], forward])
backward = np.concatenate([backward, np.ones((1, states))])

# %% [markdown]
# At every time, forward and backward probabilities make the same likelihood.

# %%
likelihood = forward[-1].sum()
print(f"log likelihood {np.log(likelihood) - length * np.log(symbols):.3f} of {length} symbols")
assert np.allclose((forward * backward).sum(1), likelihood, rtol=1e-10)
posterior = forward * backward / likelihood
assert np.allclose(posterior.sum(1), 1)

# %% [markdown]
# The probability of moving from any state to any other in any number of steps is a scan.

# %%
ahead = mmchain.scan(np.broadcast_to(move, (50, states, states)))
assert np.allclose(ahead[49], np.linalg.matrix_power(move, 50))
