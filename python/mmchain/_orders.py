"""Orders that a caller gives: as text, as nested lists, as a path of opt_einsum or cotengra."""

import operator
from typing import Any, List, Sequence, Tuple


def order_text(order: Any) -> str:
    """The text of an order, which the library checks against the chain."""
    if isinstance(order, str):
        return order
    if hasattr(order, "products"):  # Order, Plan
        return str(order) if not callable(order.products) else order.order
    try:
        items = list(order)
    except TypeError:
        raise TypeError(
            f"order: expected a str, nested lists or a path of pairs, got {type(order).__name__}"
        ) from None
    return _text_of_path(items) if _is_path(items) else _text_of_nested(items)


def _is_path(items: List[Any]) -> bool:
    """A path ends with the pair (0, 1); nested lists number factors from 1."""
    try:
        return bool(items) and sorted(map(operator.index, items[-1])) == [0, 1]
    except TypeError:
        return False


def _pair_of(pair: Any, there: int) -> Tuple[int, int]:
    try:
        i, j = sorted(map(operator.index, pair))
    except (TypeError, ValueError):
        raise ValueError(f"order: expected pairs of positions in the path, got {pair!r}") from None
    if not 0 <= i < j < there:
        raise ValueError(
            f"order: expected two of the positions 0 to {there - 1} in the path, got {pair!r}"
        )
    return i, j


def _text_of_path(path: Sequence[Any]) -> str:
    """Every pair takes two operands out of a list, and their product goes to its end. Neighbours in
    the chain alone can be multiplied, in its order."""
    n = len(path) + 1
    there = [(i, i + 1, i) for i in range(n)]  # first factor, one past the last, operand
    products: List[Tuple[int, int]] = []
    for pair in path:
        i, j = _pair_of(pair, len(there))
        second, first = there.pop(j), there.pop(i)
        if second[1] == first[0]:
            first, second = second, first
        if first[1] != second[0]:
            raise ValueError(
                f"order: the path multiplies factors {first[0] + 1} to {first[1]} by "
                f"{second[0] + 1} to {second[1]}, which are no neighbours"
            )
        there.append((first[0], second[1], n + len(products)))
        products.append((first[2], second[2]))
    return parenthesization(products)


def _text_of_nested(items: List[Any]) -> str:
    words: List[str] = []
    stack: List[Any] = [items]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            words.append(item)
        elif isinstance(item, (list, tuple)):
            words.append("(")
            stack.append(")")
            stack.extend(reversed(item))
        else:
            try:
                words.append(str(operator.index(item)))
            except TypeError:
                raise TypeError(
                    "order: expected numbers of factors, from 1, in nested lists, got "
                    f"{type(item).__name__}"
                ) from None
    return " ".join(words)


def parenthesization(products: Sequence[Tuple[int, int]]) -> str:
    """ "((A1 A2) A3)" of pairs of operands: of n factors, n + t is the result of pair t."""
    n = len(products) + 1
    ends = [(i, i) for i in range(n)]
    opened, closed = [0] * n, [0] * n
    for left, right in products:
        first, last = ends[left][0], ends[right][1]
        ends.append((first, last))
        opened[first] += 1
        closed[last] += 1
    return " ".join(f"{'(' * o}A{i}{')' * c}" for i, (o, c) in enumerate(zip(opened, closed), 1))
