"""Multiply a chain of matrices in the cheapest order.

    >>> import numpy as np, mmchain
    >>> rng = np.random.default_rng(1)
    >>> a, b, c = (rng.random(shape) for shape in [(10, 30), (30, 5), (5, 60)])
    >>> np.allclose(mmchain.multi_dot([a, b, c]), a @ b @ c)
    True
    >>> print(mmchain.plan([a, b, c]).order)
    ((A1 A2) A3)

`multi_dot` takes NumPy, PyTorch, CuPy and JAX arrays, on the CPU and on CUDA devices, and returns
the caller's kind. `plan` says what it does and why, and is for repeated use. `scan` and `recurrence` are all
products of a stack, `gradients` those of every factor, `Ranges` products of parts of a row that changes. `lower`,
`spd`, `inv` and the like tell what factors are. `tune` measures what runs best on this machine, which plans
then use.

Threads may call everything at once; the interpreter's lock is released while work is done that
is longer than releasing it takes. A fork waits for multiplications under way, and the child plans
anew; CUDA does not survive a fork, and mmchain says so when the child asks for it.
"""

from __future__ import annotations

import glob
import os
from functools import partial
from typing import Any, Literal, Optional, Sequence, Union, overload

from . import _blas, _mmchain
from ._bench import bench
from ._einsum import register as _register_einsum
from ._general import multiply as _multiply
from ._general import multiply_integers as _multiply_integers
from ._general import multiply_otherwise as _multiply_otherwise
from ._gradients import gradients
from ._info import clear_cache, info
from ._plan import Order, Plan, Step, load_plan, order, plan
from ._ranges import Ranges
from ._running import recurrence, scan
from ._sparse import sparse_plan
from ._structure import (
    Factor,
    Group,
    LowRank,
    banded,
    diagonal,
    hermitian,
    inv,
    low_rank,
    lower,
    orthogonal,
    permutation,
    spd,
    symmetric,
    tridiagonal,
    upper,
)
from ._shapes import within as _within
from ._swap import numpy_multi_dot
from ._team import Team, TeamPlan
from ._tune import Tuned, Tuning, tune
from ._types import Array, Device, Objective, Precision

__all__ = [
    "Factor",
    "Group",
    "LowRank",
    "Order",
    "Plan",
    "Ranges",
    "Step",
    "Team",
    "TeamPlan",
    "Tuned",
    "Tuning",
    "banded",
    "bench",
    "clear_cache",
    "diagonal",
    "gradients",
    "hermitian",
    "info",
    "inv",
    "load_plan",
    "low_rank",
    "lower",
    "multi_dot",
    "numpy_multi_dot",
    "order",
    "orthogonal",
    "permutation",
    "plan",
    "recurrence",
    "scan",
    "sparse_plan",
    "spd",
    "symmetric",
    "tridiagonal",
    "tune",
    "upper",
]
__version__: str = _mmchain.version


def __dir__() -> list[str]:
    """What a shell completes: the names of __all__, not those of modules that are used here."""
    return [*__all__, *(name for name in globals() if name.startswith("_"))]


_execute = _mmchain.execute


@overload
def multi_dot(
    arrays: Union[Array, Sequence[Array]],
    *,
    out: Optional[Array] = None,
    objective: Objective = "time",
    device: Optional[Device] = None,
    precision: Precision = "native",
    tolerance: Optional[float] = None,
    checked: bool = False,
    mod: Optional[int] = None,
    semiring: str = "plus-times",
    scaled: Literal[False] = False,
) -> Array: ...
@overload
def multi_dot(
    arrays: Sequence[Any],
    *,
    out: Optional[Any] = None,
    objective: Objective = "time",
    device: Optional[Device] = None,
    precision: Precision = "native",
    tolerance: Optional[float] = None,
    checked: bool = False,
    mod: Optional[int] = None,
    semiring: str = "plus-times",
    scaled: bool = False,
) -> Any: ...
@partial(_mmchain.entrance, _multiply)
def multi_dot(
    arrays: Sequence[Any],
    *,
    out: Optional[Any] = None,
    objective: Objective = "time",
    device: Optional[Device] = None,
    precision: Precision = "native",
    tolerance: Optional[float] = None,
    checked: bool = False,
    mod: Optional[int] = None,
    semiring: str = "plus-times",
    scaled: bool = False,
) -> Any:
    """The product of arrays, multiplied in the cheapest order.

    Like `numpy.linalg.multi_dot`: the first array may be a row vector of one dimension, the last a
    column vector, and the result lacks the dimensions that they lack; dtypes are promoted; exceptions
    are NumPy's, and floating-point errors are treated as `numpy.errstate` says. Of float32 and float64
    together all products are of float64, where NumPy's are promoted pair by pair. Integers of one
    dtype, and bool, have NumPy's bits; where integers are mixed with others, and for types with
    `__array_function__`, NumPy multiplies. Beyond it, arrays of more than two dimensions are stacks of matrices,
    which broadcast as `numpy.matmul` has them (also of two arrays, where NumPy takes `dot`) and are
    multiplied together, in one call. The same array may occur several times, as in a power. One array of
    three dimensions or more, given alone, is the chain itself: its last three are the factors in a row, their
    rows and their columns.

    Factors may be what `lower`, `upper`, `diagonal`, `symmetric`, `hermitian`, `spd`, `banded`, `tridiagonal`,
    `orthogonal`, `permutation`, `low_rank` and `inv` return: then kernels are chosen that use it, inverses
    are solved with, and `numpy.linalg.LinAlgError` names the factor that has none. Of NumPy's float32, float64,
    complex64 and complex128 arrays, one beside its own transposed view is seen to be so.

    Where factors are sparse, matrices of `scipy.sparse` or sparse tensors of PyTorch, the order goes by their
    nonzeros, and the result is sparse when all are (`sparse_plan` says more).

    Arrays are read where they lie, C-ordered, Fortran-ordered or with a stride between rows or
    columns; others are copied. A plan is made once for each list of shapes and remembered. Arrays
    of other dtypes than float16, bfloat16, float32, float64, complex64, complex128, integers and
    bool, JAX's integers on a GPU, subclasses but `numpy.memmap` and arrays without memory (tracers) are multiplied by their own library, in the planned order.

    Parameters
    ----------
    arrays : sequence of at least two arrays of one kind, or one array of their stack
        NumPy arrays or what becomes one, or PyTorch, CuPy or JAX arrays. Gradients of PyTorch go
        through the planned order backwards, so that its intermediate products are shared.
    out : array, optional
        For the result: of its kind, shape and dtype, and C-contiguous where NumPy's.
    objective : str
        What the plan makes least: "time", "energy", "flops" or "traffic".
    device : str, optional
        "cpu", "blas", "ref", "cuda" or "cuda:i"; None is where the arrays are. "cuda:all" and "cuda:0,1"
        are several GPUs, for NumPy arrays and for those on the first of them.
    precision : str
        "native", the arithmetic of the dtype; "faithful", other arithmetic that is at least as
        accurate; "fast", TF32 for float32 and complex64 on a GPU; "reproducible", the same bits for
        the same order on every device, by any number of threads, alone or in a stack; of 16-bit
        elements on a GPU those of that kind of GPU; "reproducible+faithful", the same with large
        products by whole numbers, which Hopper GPUs compute several times as fast and CPUs slowly.
    tolerance : float, optional
        The result may be off by so much of the product of all arrays' Frobenius norms, 0 to 1: what is
        fastest of that which is surely nearer is taken. On a Hopper GPU float64 and complex128 take the
        less time for it.
    checked : bool
        Of NumPy's, PyTorch's and CuPy's integers: raises an OverflowError that names the product where an element of an
        intermediate or of the result exceeds the dtype, instead of wrapping around.
    mod : int, optional
        Of NumPy's, PyTorch's and CuPy's integers: every product is taken modulo this number, 1 to 2**63 - 1. The result is
        0 to mod - 1, of int64, or of uint64 where all arrays are.

    semiring : str
        Of NumPy's, PyTorch's and CuPy's arrays: what takes the places of sums and products. "max-plus" and "min-plus" (the
        greatest and the least of sums, of float32, float64 and int64), "log" (the logarithm of a sum of
        exponentials of sums, of float32 and float64), "or-and" (of bool). Infinities are their zeros. Tensors
        that require gradients are refused.
    scaled : bool
        Of NumPy's float32, float64, complex64 and complex128: the result is a pair, an array and the
        exponent of a power of two that it stands for times; of a stack, an int64 array of them. So the
        product of a million factors neither overflows nor vanishes, and has the digits that it has
        without.

    Returns
    -------
    array of the caller's kind
        A scalar where NumPy returns one. On a CUDA device the work is ordered on the current
        stream, as any operation of the caller's library; JAX's is complete.

    Examples
    --------
    >>> import numpy as np, mmchain
    >>> a, b, c = np.ones((2, 3)), np.ones((3, 4)), np.ones(4)
    >>> mmchain.multi_dot([a, b, c])
    array([12., 12.])
    >>> mmchain.multi_dot([np.ones((7, 2, 3)), b, np.ones((4, 5))]).shape
    (7, 2, 5)
    >>> fibonacci = np.array([[1, 1], [1, 0]])
    >>> int(mmchain.multi_dot([fibonacci] * 1000, mod=10**9 + 7)[0, 1])
    517691607
    >>> mmchain.multi_dot(np.full((1000, 2, 2), 0.5))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    if scaled or semiring != "plus-times":
        if checked or mod is not None or tolerance is not None:
            raise ValueError("semiring, scaled: expected no checked, no mod and no tolerance with them")
        return _multiply_otherwise(arrays, out, objective, device, precision, semiring, scaled)
    if checked or mod is not None:
        if tolerance is not None:
            raise ValueError("tolerance: expected None with checked or mod, which are exact")
        return _multiply_integers(arrays, out, objective, device, precision, checked, mod)
    arithmetic = precision if tolerance is None else _within(tolerance, precision)
    result = _execute(None, arrays, out, objective, device, arithmetic, None, False)
    if result is not NotImplemented:
        return result
    return _multiply(None, arrays, out, objective, device, arithmetic)


_package = os.path.dirname(os.path.abspath(__file__))
_has_modules = bool(glob.glob(os.path.join(_package, "mmchain-*.so")))
_by_package = _has_modules and "MMCHAIN_MODULE_DIR" not in os.environ
_mmchain.configure(_package if _by_package else None, _blas.paths())
_blas.check()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_mmchain.before_fork,
        after_in_parent=_mmchain.after_fork,
        after_in_child=_mmchain.after_fork_in_child,
    )
_register_einsum()
