"""opt_einsum's optimize="mmchain"."""

import numpy as np
import pytest

import mmchain  # noqa: F401
from mmchain import _einsum

oe = pytest.importorskip("opt_einsum")


def contract_and_compare(text, *shapes, rng):
    arrays = [rng.standard_normal(shape) for shape in shapes]
    ours = oe.contract(text, *arrays, optimize="mmchain")
    np.testing.assert_allclose(ours, np.einsum(text, *arrays), rtol=1e-9, atol=1e-9)
    return cost(text, "mmchain", *arrays), cost(text, "optimal", *arrays)


def cost(text, optimize, *arrays):
    return oe.contract_path(text, *arrays, optimize=optimize)[1].opt_cost


LETTERS = "abcdefghijklmnop"


def chain_text(rng, n):
    """A chain with transposed operands, in any order, by any letters; and its shapes."""
    letters = rng.permutation(list(LETTERS))[: n + 1]
    dims = rng.integers(2, 9, n + 1)
    sizes = dict(zip(letters, map(int, dims)))
    operands = []
    for a, b in zip(letters, letters[1:]):
        operands.append(a + b if rng.random() < 0.5 else b + a)
    ends = [letters[0], letters[-1]]
    if rng.random() < 0.3:
        operands[0] = letters[1]
        ends.remove(letters[0])
    if rng.random() < 0.3:
        operands[-1] = letters[-2]
        ends.remove(letters[-1])
    operands = list(rng.permutation(operands))
    text = ",".join(operands) + "->" + "".join(rng.permutation(ends) if ends else [])
    return text, [tuple(sizes[x] for x in operand) for operand in operands]


@pytest.mark.parametrize("seed", range(40))
def test_chains_get_the_exact_order(seed):
    rng = np.random.default_rng(seed)
    text, shapes = chain_text(rng, int(rng.integers(3, 7)))
    inputs, output = text.split("->")
    sizes = {x: d for op, shape in zip(inputs.split(","), shapes) for x, d in zip(op, shape)}
    assert _einsum.find_chain([frozenset(op) for op in inputs.split(",")], frozenset(output), sizes)
    ours, best = contract_and_compare(text, *shapes, rng=rng)
    assert ours == best, text


@pytest.mark.parametrize(
    "text, shapes",
    [
        ("bij,bjk,bkl->bil", [(3, 4, 5), (3, 5, 6), (3, 6, 2)]),  # a stack
        ("ijk,jkl,lm->im", [(2, 3, 4), (3, 4, 5), (5, 6)]),  # two indices as one
        ("ab,bc,cd,de", [(9, 2), (2, 8), (8, 3), (3, 7)]),  # the result is implied
        ("abx,bcx,cdx->xad", [(2, 3, 4), (3, 5, 4), (5, 2, 4)]),
    ],
)
def test_chains_in_other_clothes(text, shapes):
    rng = np.random.default_rng(1)
    ours, best = contract_and_compare(text, *shapes, rng=rng)
    assert ours == best


@pytest.mark.parametrize(
    "text, shapes",
    [
        ("ij,jk,ki->", [(3, 4), (4, 5), (5, 3)]),  # a ring
        ("ij,ik,il->jkl", [(3, 4), (3, 5), (3, 2)]),  # a star
        ("ij,jk,kl->i", [(3, 4), (4, 5), (5, 2)]),  # l is summed in one operand alone
        ("ij,kl,mn->ijklmn", [(2, 2), (2, 3), (3, 2)]),  # nothing linked
        ("ij,jk,kl->ijl", [(3, 4), (4, 5), (5, 2)]),  # j stays
        ("aij,jk,kl->ail", [(2, 3, 4), (4, 5), (5, 6)]),
        ("i,i,i->i", [(3,), (3,), (3,)]),
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij->ji", [(3, 4)]),
    ],
)
def test_what_is_no_chain_falls_through(text, shapes):
    contract_and_compare(text, *shapes, rng=np.random.default_rng(1))


def test_a_long_chain_beats_auto():
    rng = np.random.default_rng(4)
    letters = [oe.get_symbol(i) for i in range(41)]
    dims = rng.integers(1, 60, 41)
    text = ",".join(a + b for a, b in zip(letters, letters[1:])) + "->" + letters[0] + letters[-1]
    shapes = list(zip(map(int, dims), map(int, dims[1:])))
    ours = oe.contract_path(text, *shapes, optimize="mmchain", shapes=True)[0]
    total, left = 0, [(i, i + 1) for i in range(40)]
    for a, b in ours:
        first, second = sorted((left[a], left[b]))
        assert first[1] == second[0], "neighbours are multiplied"
        left = [x for i, x in enumerate(left) if i not in (a, b)] + [(first[0], second[1])]
        total += int(dims[first[0]]) * int(dims[first[1]]) * int(dims[second[1]])
    assert total == mmchain.plan("x".join(map(str, dims)), objective="flops").multiplications


def test_registering_twice_is_harmless():
    assert _einsum.register() and _einsum.register()
