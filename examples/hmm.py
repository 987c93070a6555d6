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
seen = np.empty(length, int)
state = rng.choice(states, p=start)
for t in range(length):
    seen[t] = rng.choice(symbols, p=emit[state])
    state = rng.choice(states, p=move[state])

# %% [markdown]
# A step takes the probability of each state to that of the next, with the symbol seen there. After
# 2000 of them hardly anything is left, so each result has the exponent of a power of two.

# %%
steps = move[None] * emit[:, seen].T[:, None, :]
first = start * emit[:, seen[0]]
forward, up = mmchain.recurrence(steps[1:].swapaxes(1, 2), first, scaled=True)
backward, down = mmchain.recurrence(steps[1:], np.ones(states), reverse=True, scaled=True)
forward, up = np.concatenate([first[None], forward]), np.append(0, up)
backward, down = np.concatenate([backward, np.ones((1, states))]), np.append(down, 0)

# At every time, forward and backward probabilities make the same likelihood.
both = (forward * backward).sum(1)
log_likelihood = np.log(both) + (up + down) * np.log(2)
print(f"log likelihood {log_likelihood[-1]:.3f} of {length} symbols")
assert np.allclose(log_likelihood, log_likelihood[-1], rtol=1e-12)
posterior = forward * backward / both[:, None]

# %% [markdown]
# The likeliest path through all states (Viterbi): logarithms are added, and the greatest sum is taken.

# %%
logs = np.log(steps[1:])
before = mmchain.recurrence(logs.swapaxes(1, 2), np.log(first), semiring="max-plus")
after = mmchain.recurrence(logs, np.zeros(states), reverse=True, semiring="max-plus")
best = np.concatenate([np.log(first)[None], before]) + np.concatenate([after, np.zeros((1, states))])
path = best.argmax(1)
assert np.allclose(best.max(1), before[-1].max()) and (path == posterior.argmax(1)).mean() > 0.5
