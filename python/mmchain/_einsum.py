"""opt_einsum's optimize="mmchain": the exact order of an einsum that is a chain of matrices.

Indices that occur in the same operands act as one. An einsum is a chain when its groups of indices
link the operands into one line: each group is shared by two neighbours and summed over, or is a
free index of an operand at an end, or runs through all operands and the result. How indices are
ordered in an operand, that is, whether a matrix is transposed, and in which order the operands are
given, is of no account. What is no chain is left to opt_einsum's "auto".
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Collection, Dict, List, Optional, Sequence, Set, Tuple

from . import _shapes


# Operands that share a group of indices, and whether it is free -> the group's size.
_Groups = Dict[Tuple[Tuple[int, ...], bool], int]


def _groups(
    inputs: Sequence[Collection[str]], output: Collection[str], sizes: Dict[str, int]
) -> _Groups:
    """Operands that share a group of indices, and whether it is free -> the group's size."""
    groups: _Groups = {}
    indices: Set[str] = set()
    for index in indices.union(*inputs):
        where = tuple(i for i, operand in enumerate(inputs) if index in operand)
        key = (where, index in output)
        groups[key] = groups.get(key, 1) * int(sizes[index])
    return groups


def _line(n: int, links: Dict[Tuple[int, ...], int]) -> Optional[List[int]]:
    """The operands in the order of the chain that links make, or None."""
    neighbours: List[List[int]] = [[] for _ in range(n)]
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    ends = [i for i in range(n) if len(neighbours[i]) == 1]
    if len(links) != n - 1 or len(ends) != 2:
        return None
    line = [ends[0]]
    while len(line) < n:
        onward = [i for i in neighbours[line[-1]] if i not in line[-2:]]
        if len(onward) != 1:
            return None
        line.append(onward[0])
    return line


def find_chain(
    inputs: Sequence[Collection[str]], output: Collection[str], sizes: Dict[str, int]
) -> Optional[Tuple[List[int], List[int]]]:
    """The operands in the order of the chain, and its dims; None when the einsum is no chain."""
    n = len(inputs)
    links: Dict[Tuple[int, ...], int] = {}
    free: Dict[int, int] = {}
    for (where, in_output), size in _groups(inputs, output, sizes).items():
        if len(where) == 2 and not in_output:
            links[where] = size
        elif len(where) == 1 and in_output:
            free[where[0]] = size
        elif not (len(where) == n and in_output):
            return None
    line = _line(n, links)
    if line is None or not set(free) <= {line[0], line[-1]}:
        return None
    inner = [links[min(pair), max(pair)] for pair in zip(line, line[1:])]
    return line, [free.get(line[0], 1), *inner, free.get(line[-1], 1)]


def _path(n: int, line: Sequence[int], pairs: Sequence[Tuple[int, int]]) -> List[Tuple[int, ...]]:
    """Products as opt_einsum writes them: positions among the operands that are left."""
    left = list(range(n))
    path = []
    for t, pair in enumerate(pairs):
        names = [line[i] if i < n else i for i in pair]
        positions = tuple(sorted(left.index(name) for name in names))
        for position in reversed(positions):
            del left[position]
        left.append(n + t)
        path.append(positions)
    return path


def optimize(
    inputs: List[Any], output: Any, size_dict: Dict[str, int], memory_limit: Optional[int] = None
) -> Any:
    """A path function of opt_einsum."""
    auto: Any = import_module("opt_einsum.paths").auto
    chain = find_chain(inputs, output, size_dict) if len(inputs) > 2 else None
    if chain is None or memory_limit is not None:
        return auto(inputs, output, size_dict, memory_limit)
    line, dims = chain
    if max(dims) > 2**62:
        return auto(inputs, output, size_dict, memory_limit)
    return _path(len(inputs), line, _shapes.products(dims))


def register() -> bool:
    """Makes optimize="mmchain" known where opt_einsum is installed."""
    try:
        paths: Any = import_module("opt_einsum.paths")
    except ImportError:
        return False
    try:
        paths.register_path_fn("mmchain", optimize)
    except KeyError:
        pass  # by an import of this package before
    return True
