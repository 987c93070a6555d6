"""A rank that ends by an exception, as others multiply, takes them along."""

import numpy as np

import mmchain

team = mmchain.Team()
a = np.ones((9, 9))
team.multi_dot([a, a])
if team.rank == 1:
    raise FileNotFoundError("no such factor")
team.multi_dot([a, a])
raise AssertionError("the others have gone on")
