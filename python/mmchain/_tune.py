"""Tuning: measures how products run best on this machine."""

from __future__ import annotations

import operator
from typing import (
    Any,
    Callable,
    Iterable,
    List,
    Literal,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _mmchain
from ._plan import chain_text, dtype_name
from ._types import Device, Precision


class Tuned(NamedTuple):
    """What was decided of one product: op(A) op(B) is m x k by k x n."""

    m: int
    k: int
    n: int
    ops: str  # "NT": A as stored, B transposed; H is conjugate transposed
    dtype: str  # "f64"
    recipe: str  # "whole" for one plain call, else in parts: "n:2048,1024"
    plain_s: float  # of the plain call
    seconds: float  # of the recipe
    gain: float  # plain_s by seconds, measured in turns
    gain_low: float  # its bounds
    gain_high: float


class Tuning(List[Tuned]):
    """What `tune` returns: a list of `Tuned`, and how far it went.

    >>> mmchain.Tuning([], measurements=0, complete=True).complete
    True
    """

    measurements: int  # made now; what an earlier call has measured is not made again
    complete: bool  # False: the budget is spent, and another call goes on

    def __init__(self, tuned: Iterable[Tuned] = (), *, measurements: int, complete: bool) -> None:
        super().__init__(tuned)
        self.measurements = measurements
        self.complete = complete


def _check_ops(ops: str) -> str:
    if not (isinstance(ops, str) and len(ops) == 2 and all(op in "NTH" for op in ops)):
        raise ValueError(f"ops: expected two letters of N, T and H, as in 'NT', got {ops!r}")
    return ops


def _product_text(product: Sequence[Any], ops: str, dtype: Any) -> str:
    if not 3 <= len(product) <= 5:
        raise ValueError(f"set: expected (m, k, n[, ops[, dtype]]), got {product!r}")
    sizes = [operator.index(size) for size in product[:3]]
    if min(sizes) < 1:
        raise ValueError(f"set: expected sizes of at least 1, got {product!r}")
    own_ops, own_dtype = [*product[3:], *[ops, dtype][len(product) - 3 :]]
    return f"{dtype_name(own_dtype)}:{'x'.join(map(str, sizes))}:{_check_ops(own_ops)}"


def _chain_texts(chains: Sequence[Any], dtype: Any) -> Tuple[List[str], Optional[str]]:
    """The chains as text, and the device that their arrays lie on."""
    from . import _structure

    if isinstance(chains, str) or any(hasattr(chain, "shape") for chain in chains):
        raise TypeError("chains: expected a sequence of chains; of one, [chain]")
    texts, devices = [], []
    for chain in chains:
        if _structure.is_structured(chain):
            text, device = _structure.chain_text(chain), None
        else:
            text, device = chain_text(chain, dtype, least=2)
        texts.append(text)
        devices.append(device)
    if any(device != devices[0] for device in devices):
        raise ValueError("chains: expected arrays on one device")
    return texts, devices[0] if devices else None


def tune(
    chains: Optional[Sequence[Union[str, Sequence[Any]]]] = None,
    *,
    set: Optional[Iterable[Sequence[Any]]] = None,
    range: Optional[int] = None,
    dtype: Any = None,
    ops: str = "NN",
    device: Optional[Device] = None,
    precision: Precision = "native",
    objective: Literal["time", "energy"] = "time",
    budget: Optional[float] = None,
    progress: Optional[Callable[[Optional[float], int, int, str], Any]] = None,
) -> Tuning:
    """Measures how products run best on this machine, for `multi_dot` and plans for time.

    What is found is kept in the wisdom store (the file MMCHAIN_WISDOM, else mmchain/wisdom.db in
    the user's cache), every measurement as soon as it is made: called again, after Ctrl-C or
    anything else, tuning goes on where it was. Plans that `multi_dot` has cached are made anew;
    a `Plan` stays as it is. Leave the machine alone meanwhile.

    Parameters
    ----------
    chains : sequence of chains, each as for `plan`
        Their products: all that an order may need of up to 6 factors, of longer chains those of
        the fewest multiplications.
    set : sequence of (m, k, n), (m, k, n, ops) or (m, k, n, ops, dtype)
        These products.
    range : int
        The efficiency of all sizes up to it, on a grid. One of chains, set and range is given.
    dtype : optional
        As for `plan`; of a set and a range float64 when it is None.
    ops : str
        Of a set and a range: a letter a factor, N, T (transposed) or H (conjugate transposed).
    device, precision : as for `multi_dot`
    objective : str
        What to make least: "time".
    budget : float, optional
        Seconds to measure at most; as long as it takes when it is None.
    progress : callable, optional
        Called between measurements, and several times a second within long ones, with the share of
        the budget that is spent, or None without one, and with how many of what is measured now are
        decided, how many there are and what these are: ``progress(0.25, 3, 35, "products")``. An
        exception that it raises stops tuning and is raised here.

    Returns
    -------
    Tuning
        A list of what was decided, empty for a range.

    Raises
    ------
    RuntimeError
        There is no wisdom store or no such device, or another thread is tuning.

    Examples
    --------
    >>> result = mmchain.tune(set=[(8, 8, 8)], device="ref", budget=5)
    >>> [(t.m, t.k, t.n, t.ops, t.dtype) for t in result if t.seconds > 0]
    [(8, 8, 8, 'NN', 'f64')]
    """
    if sum(what is not None for what in (chains, set, range)) != 1:
        raise TypeError("tune: expected one of chains, set and range")
    if budget is not None and not isinstance(budget, (int, float)):
        raise TypeError(f"budget: expected seconds above 0, or None, got {type(budget).__name__}")
    if budget is not None and not budget > 0:
        raise ValueError(f"budget: expected seconds above 0, or None, got {budget!r}")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress: expected a callable, got {type(progress).__name__}")
    like = f"{dtype_name('float64' if dtype is None else dtype)}:1x1x1:{_check_ops(ops)}"
    texts: List[str] = []
    most = 0
    if chains is not None:
        texts, here = _chain_texts(list(chains) if not isinstance(chains, str) else chains, dtype)
        device = here if device is None else device
    elif set is not None:
        default = "float64" if dtype is None else dtype
        texts = [_product_text(tuple(product), ops, default) for product in set]
    elif range is not None:
        most = operator.index(range)
        if most < 1:
            raise ValueError(f"range: expected a size of at least 1, got {most}")
    if not texts and most == 0:
        return Tuning(measurements=0, complete=True)
    found, measurements, complete = _mmchain.tune(
        texts, like, most, device, precision, objective, budget or 0.0, progress
    )
    return Tuning((Tuned(*one) for one in found), measurements=measurements, complete=complete)
