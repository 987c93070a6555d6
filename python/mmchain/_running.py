"""Running products and recurrences of any arrays: what fits together, and by which library."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _general
from ._types import Array, Device

Shape = Tuple[int, ...]


class Running(NamedTuple):
    """What is asked for, whatever the arrays are of."""

    recurrence: bool
    reverse: bool
    exclusive: bool
    device: Optional[str]
    vector: bool = False  # whether states were given as vectors, each of which has become a column
    semiring: int = 0  # as in mmc_semiring
    scaled: bool = False

    @property
    def name(self) -> str:
        """What the factors are called by the caller."""
        return "a" if self.recurrence else "stack"

    def told(self, shape: Shape) -> Shape:
        """The shape of states as the caller knows it."""
        return shape[:-1] if self.vector else shape


class Shapes(NamedTuple):
    """Shapes with one stack for all: factors, initial, addend, and of the result."""

    factors: Shape
    initial: Optional[Shape]
    addend: Optional[Shape]
    out: Shape

    @property
    def inputs(self) -> List[Optional[Shape]]:
        return [self.factors, self.initial, self.addend]


def _stack_of(shapes: Dict[str, Shape]) -> Shape:
    """The shape that stacks broadcast to."""
    ndim = max(map(len, shapes.values()))
    result = [1] * ndim
    for shape in shapes.values():
        for d, size in enumerate(shape, ndim - len(shape)):
            if size != 1 and result[d] not in (1, size):
                text = " and ".join(map(str, shapes.values()))
                raise ValueError(f"{', '.join(shapes)}: expected stacks that broadcast, got those of shapes {text}")
            if size != 1:
                result[d] = size
    return tuple(result)


def fit(
    running: Running, factors: Shape, initial: Optional[Shape], addend: Optional[Shape]
) -> Shapes:
    """The shapes when they fit; ValueError names the array that does not."""
    recurrence, told = running.recurrence, running.told
    name = running.name
    if len(factors) < 3 or factors[-1] != factors[-2]:
        raise ValueError(f"{name}: expected a stack of square matrices, got shape {factors}")
    length, n = factors[-3], factors[-1]
    if initial is not None and (len(initial) < 2 or initial[-2] != n):
        what = "x0" if recurrence else "initial"
        raise ValueError(f"{what}: expected {n} rows, got shape {told(initial)}")
    m = n if initial is None else initial[-1]
    if not recurrence and m != n:
        raise ValueError(f"initial: expected {n} columns, got shape {initial}")
    if addend is not None and addend[-3:] != (length, n, m):
        ending = told((length, n, m))
        raise ValueError(f"b: expected a shape that ends with {ending}, got {told(addend)}")
    stacks = {name: factors[:-3]}
    if initial is not None:
        stacks["x0" if recurrence else "initial"] = initial[:-2]
    if addend is not None:
        stacks["b"] = addend[:-3]
    stack = _stack_of(stacks)
    return Shapes(
        stack + (length, n, n),
        None if initial is None else stack + (n, m),
        None if addend is None else stack + (length, n, m),
        stack + (length, n, m),
    )


# ---- by products of the array's own library -------------------------------------------------------


def _prefixes(stack: Any, product: Callable[[Any, Any], Any], interleave: Any) -> Any:
    """All prefixes of the matrices along axis -3, by a tree (Brent and Kung 1982)."""
    length = stack.shape[-3]
    if length < 2:
        return stack
    odd = _prefixes(
        product(stack[..., 0 : length - 1 : 2, :, :], stack[..., 1::2, :, :]), product, interleave
    )
    first = stack[..., :1, :, :]
    even = product(odd[..., : (length - 1) // 2, :, :], stack[..., 2::2, :, :])
    return interleave(first, even, odd)


def by_products(running: Running, arrays: List[Any], numpy: Any, flip: Any) -> Any:
    """By products that the library can differentiate or trace. `numpy` has matmul, concatenate and
    stack; flip turns an axis around. The arrays have the shapes that fit() gives."""
    factors, initial, addend = arrays
    if running.reverse:
        factors = flip(factors, -3)
        addend = None if addend is None else flip(addend, -3)
    states = [] if initial is None else [initial[..., None, :, :]]
    if running.recurrence:
        for t in range(factors.shape[-3]):
            state = numpy.matmul(factors[..., t : t + 1, :, :], states[-1])
            states.append(state if addend is None else state + addend[..., t : t + 1, :, :])
        results = numpy.concatenate(states, -3)
    else:
        results = _by_tree(running, factors, initial, numpy)
    length = factors.shape[-3]
    last = results.shape[-3] - int(running.exclusive)
    results = results[..., last - length : last, :, :]
    return flip(results, -3) if running.reverse else results


def _by_tree(running: Running, factors: Any, initial: Any, numpy: Any) -> Any:
    """The initial matrix, or the identity where it is asked for, then all products."""

    def interleave(first: Any, even: Any, odd: Any) -> Any:
        pairs = min(odd.shape[-3], even.shape[-3])
        stack = odd.shape[:-3]
        both = numpy.stack([odd[..., :pairs, :, :], even[..., :pairs, :, :]], -3)
        both = both.reshape(stack + (2 * pairs,) + odd.shape[-2:])
        return numpy.concatenate([first, both, odd[..., pairs:, :, :]], -3)

    def product(a: Any, b: Any) -> Any:
        return numpy.matmul(b, a) if running.reverse else numpy.matmul(a, b)

    if initial is None and running.exclusive:
        identity = numpy.eye(factors.shape[-1], dtype=factors.dtype)
        initial = factors[..., 0, :, :] * 0 + identity if factors.shape[-3] else identity
    if initial is not None:
        factors = numpy.concatenate([initial[..., None, :, :], factors], -3)
    return _prefixes(factors, product, interleave)


# ---- the functions --------------------------------------------------------------------------------

# What scan and recurrence call what the library calls so.
_names_of_the_library = {"factors": ("stack", "a"), "initial": ("initial", "x0"), "addend": ("b", "b")}


def _expect_array(out: Any) -> None:
    if out is not None and not hasattr(out, "shape"):
        raise TypeError(f"out: expected an array, got {type(out).__name__}")


def _run(running: Running, arrays: List[Any], out: Any) -> Any:
    given = [array for array in arrays if array is not None]
    for array in given:
        _general.expect_dense(array, "running products")
    _general.expect_arithmetic(given, running.semiring, running.scaled)
    room = _general.room_of(given)
    try:
        arrays = [None if array is None else room.as_array(array) for array in arrays]
    except ValueError as error:  # NumPy's, of lists of arrays of several shapes
        raise ValueError(f"{running.name}: expected a stack of square matrices: {error}") from None
    factors, initial, addend = [None if array is None else tuple(array.shape) for array in arrays]
    shapes = fit(running, factors or (), initial, addend)
    _expect_array(out)
    if out is not None and tuple(out.shape) != shapes.out:
        expected, got = running.told(shapes.out), running.told(tuple(out.shape))
        raise ValueError(f"out: expected shape {expected}, got {got}")
    if running.scaled and addend is not None:
        raise ValueError("scaled: expected no b with it")
    try:
        return room.running(running, arrays, shapes, out)
    except ValueError as error:
        name, colon, text = str(error).partition(":")
        if name not in _names_of_the_library:
            raise
        named = _names_of_the_library[name][running.recurrence]
        raise ValueError(named + colon + text) from None


def scan(
    stack: Array,
    reverse: bool = False,
    exclusive: bool = False,
    initial: Optional[Array] = None,
    out: Optional[Array] = None,
    *,
    device: Optional[Device] = None,
    semiring: str = "plus-times",
    scaled: bool = False,
) -> Any:
    """All running products A1, A1 A2, ..., A1...AT of a stack of square matrices, in one call.

    The products are taken in whatever order is cheapest here, in fewer than two products a factor:
    one after the other, in blocks for the CPU's cores, or by one launch or few on a GPU. NaN in a
    factor is in the products that hold it, and in no others.

    Parameters
    ----------
    stack : array of shape (..., T, n, n)
        What multi_dot takes. Of more than three dimensions, each stack in the last three is a chain
        of its own.
    reverse : bool
        From the end: A1...AT, A2...AT, ..., AT.
    exclusive : bool
        Each without its own factor: the identity, A1, A1 A2, ...; with reverse the last is the
        identity.
    initial : array of shape (..., n, n), optional
        A matrix that goes before the first factor, or after the last with reverse.
    out : array, optional
        For the result, apart from all that is read.
    device : str, optional
        As in multi_dot.
    semiring : str
        As in multi_dot; the identity has zeros of the semiring around its ones.
    scaled : bool
        As in multi_dot: products neither overflow nor vanish, and each has an exponent.

    Returns
    -------
    array of shape (..., T, n, n)
        Of the kind of `stack`. With `scaled` a pair, of that and of an int64 array of exponents, of
        shape (..., T).

    Examples
    --------
    >>> import numpy as np, mmchain
    >>> mmchain.scan(np.full((3, 1, 1), 2.0)).ravel()
    array([2., 4., 8.])
    >>> mmchain.scan(np.full((3, 1, 1), 2.0), reverse=True, exclusive=True).ravel()
    array([4., 2., 1.])
    """
    number = _general.semiring_number(semiring)
    running = Running(False, bool(reverse), bool(exclusive), device, False, number, bool(scaled))
    return _run(running, [stack, initial, None], out)


def recurrence(
    a: Any,
    x0: Any,
    b: Optional[Any] = None,
    reverse: bool = False,
    exclusive: bool = False,
    out: Optional[Any] = None,
    *,
    device: Optional[Device] = None,
    semiring: str = "plus-times",
    scaled: bool = False,
) -> Any:
    """All states of x_t = A_t x_(t-1) + b_t, for t = 1 to T, in one call.

    States are vectors, or matrices of a few columns. Stacks of A, x0 and b before the dimensions
    below broadcast, and are worked through together.

    Parameters
    ----------
    a : array of shape (..., T, n, n)
    x0 : array of shape (n,), or (..., n, m)
        The state before the first, or after the last with reverse.
    b : array of shape (..., T, n), or (..., T, n, m), optional
        What is added in each step. It has the first shape where x0 is a vector.
    reverse : bool
        From the end: x_t = A_t x_(t+1) + b_t, where x_(T+1) is x0.
    exclusive : bool
        The states before each step: x0, x1, ..., without the last.
    out, device, semiring, scaled
        As in scan; scaled takes no b.

    Returns
    -------
    array of shape (..., T, n), or (..., T, n, m)
        With `scaled` a pair, as of scan.

    Examples
    --------
    >>> import numpy as np, mmchain
    >>> step = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> mmchain.recurrence(np.broadcast_to(step, (3, 2, 2)), np.array([0.0, 1.0]))
    array([[1., 1.],
           [2., 1.],
           [3., 1.]])
    """
    number = _general.semiring_number(semiring)
    _general.expect_dense(a, "running products")
    room = _general.room_of([array for array in (a, x0, b) if array is not None])
    initial: Any = room.as_array(x0)
    addend: Any = None if b is None else room.as_array(b)
    _expect_array(out)
    made: Any = out
    vector = initial.ndim == 1
    running = Running(True, bool(reverse), bool(exclusive), device, vector, number, bool(scaled))
    if vector:
        initial = initial[:, None]
        addend = None if addend is None else addend[..., None]
        made = None if made is None else made[..., None]
    result = _run(running, [room.as_array(a), initial, addend], made)
    if scaled:
        return (result[0][..., 0] if vector else result[0], result[1])
    return result[..., 0] if vector else result
