"""Plans: what multi_dot would do, said and kept for repeated use."""

from __future__ import annotations

import json
import math
import operator
import os
import sys
import tempfile
from functools import cached_property, lru_cache
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union, overload

import numpy as np

from . import _mmchain, _shapes
from ._general import chain_of, factors_of, multiply
from ._types import Array, Device, Format, Objective, Precision, Solver, float_names, integer_names
from ._orders import order_text, parenthesization


class Step(NamedTuple):
    """One product of a plan: an m x k by a k x n matrix."""

    product: str  # "T1 = A1 A2"
    m: int
    k: int
    n: int
    kernel: Optional[str]  # what the device runs it with
    multiplications: int  # mkn


def _plan_again(*arguments: Any) -> Plan:
    return Plan(*arguments)


class Plan(_mmchain.Plan):
    """How a chain is multiplied. Made by `mmchain.plan`; pickles by being planned again.

    >>> p = mmchain.plan("f64:10x30x5x60", device="ref")
    >>> p
    mmchain.Plan('f64:10x30x5x60', order='((A1 A2) A3)', device='ref')
    >>> p.multiplications, p.flops
    (4500, 9000)
    >>> [step.product for step in p.steps]
    ['T1 = A1 A2', 'R = T1 A3']
    """

    @cached_property
    def _facts(self) -> Dict[str, Any]:
        facts: Dict[str, Any] = json.loads(self.describe("json"))
        return facts

    @property
    def order(self) -> str:
        """The parenthesization: "((A1 A2) A3)"."""
        return self._order

    @cached_property
    def _order(self) -> str:
        repeats = "=" in self.chain or "^" in self.chain
        return self._facts["order"] if repeats else parenthesization(self.products())

    @property
    def flops(self) -> int:
        """Real floating-point operations: 2mkn a product, 8mkn of complex elements."""
        return int(self._facts["flops"])

    @property
    def steps(self) -> List[Step]:
        """The products in the order in which they run."""
        return [
            Step(s["product"], s["m"], s["k"], s["n"], s["kernel"], s["m"] * s["k"] * s["n"])
            for s in self._facts["steps"]
        ]

    def explain(self, format: Format = "text") -> str:
        """The plan and its reasons: for people ("text"), programs ("json") or Graphviz ("dot"), or
        as a picture ("svg")."""
        return self.describe(format)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the picture of the tree to a file that ends in .svg; in .json, .dot or .txt, what
        `explain` says; `load_plan` reads .json. The file appears whole or not at all.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mmchain.plan("f64:10x30x5x60").save(os.path.join(folder, "plan.svg"))
        """
        name = os.fspath(path)
        formats = {".svg": "svg", ".json": "json", ".dot": "dot", ".txt": "text"}
        end = os.path.splitext(name)[1]
        if end not in formats:
            raise ValueError(f"path: expected a name that ends in {', '.join(formats)}, got {name!r}")
        text = self.describe(formats[end])
        folder = os.path.dirname(os.path.abspath(name))
        try:
            descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".mmchain-")
        except OSError as error:
            raise type(error)(error.errno, error.strerror, name) from None
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, name)
        except BaseException:
            os.unlink(temporary)
            raise

    @overload
    def execute(self, arrays: Sequence[Array], out: Optional[Array] = None) -> Array: ...
    @overload
    def execute(self, arrays: Sequence[Any], out: Optional[Any] = None) -> Any: ...
    def execute(self, arrays: Sequence[Any], out: Optional[Any] = None) -> Any:
        """The product of arrays of the planned shapes, as `multi_dot` returns it.

        The dtype is the planned one; arrays of another are converted where no value is lost by it,
        and else refused. A plan
        for one chain takes stacks too: it is then made for as many chains, once.

        >>> p = mmchain.plan("f64:2x3x2")
        >>> p.execute([np.ones((2, 3)), np.ones((3, 2))])
        array([[3., 3.],
               [3., 3.]])
        """
        result = _mmchain.execute(self, arrays, out, "", None, "", None, False)
        if result is not NotImplemented:
            return result
        return multiply(self, arrays, out, "", None, self._arguments[3])

    def _repr_svg_(self) -> str:
        """The tree, as notebooks show it."""
        return self.describe("svg")

    def __repr__(self) -> str:
        chain = _short(self.chain)
        if chain != self.chain:
            return f"mmchain.Plan({chain!r}, device={self.device!r})"
        return f"mmchain.Plan({chain!r}, order={_short(self.order)!r}, device={self.device!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _plan_again, self._arguments


def load_plan(path: Union[str, "os.PathLike[str]"]) -> Plan:
    """The plan that `Plan.save` wrote to a file that ends in .json, or `mmchain plan --json`.

    It is planned again, for the same chain by the same objective, device and precision, and has the
    same steps, splits and kernels. Where it cannot, a RuntimeError says which step would be another
    now; a ValueError, what is wrong with the file or no longer here. What `execute` takes are the
    factors themselves: a.T where the plan has an op T, and `mmchain.Factor(a).H` where it has an H,
    which stacks cannot have.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "plan.json")
    ...     mmchain.plan("f64:10x30x5x60", order="A1 (A2 A3)").save(path)
    ...     mmchain.load_plan(path).order
    '(A1 (A2 A3))'
    """
    with open(os.fspath(path), "rb") as file:
        text = file.read()
    try:
        facts: Dict[str, Any] = json.loads(text)
        said = [facts[name] for name in ("chain", "objective", "device", "precision")]
        if not all(isinstance(value, str) for value in said):
            raise TypeError("chain, objective, device and precision are not text")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"path: expected a plan as plan --json writes it ({error})") from None
    slowdown = facts.get("max_slowdown")
    plan = Plan(*said, "auto", None, slowdown, False, None, text)
    if plan._facts["solver"] != "given":
        return plan
    return Plan(*said, "auto", None, slowdown, False, plan.order, text)  # stacks keep the order too


def _short(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-100:]}"


def _name_of(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2] if "torch" in str(dtype) else str(dtype)
    names = {**float_names, **integer_names}
    if name in names.values():
        return name
    if name not in names:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            pass
    if name not in names:
        raise TypeError(f"dtype: expected one of {', '.join(names)}, got {name}")
    return names[name]


_known_name_of = lru_cache(maxsize=64)(_name_of)


def dtype_name(dtype: Any) -> str:
    """ "f64" from numpy.float64, "float64", torch.float64 or "f64"."""
    try:
        return _known_name_of(dtype)
    except TypeError:  # it has no hash, or no name
        return _name_of(dtype)


def _device_of(arrays: Sequence[Any]) -> Tuple[Optional[str], bool]:
    """The device that arrays lie on, when they say so, and whether it has memory of its own."""
    try:
        kind, number = arrays[0].__dlpack_device__()
    except (AttributeError, TypeError, ValueError, BufferError, RuntimeError):
        return None, False
    return (f"cuda:{number}", True) if int(kind) in (2, 13) else (None, False)


def _promoted(arrays: Sequence[Any]) -> Any:
    dtypes = [array.dtype for array in arrays]
    if all(dtype == dtypes[0] for dtype in dtypes):
        return dtypes[0]
    names = [dtype_name(dtype) for dtype in dtypes]
    numpy_names = {short: name for name, short in [*float_names.items(), *integer_names.items()]}
    return np.result_type(*(numpy_names[name] for name in names))


def _text_of(arrays: List[Any], dtype: Any) -> str:
    """The chain of arrays that have a shape and a dtype, whatever they are."""
    chain = _shapes.check([array.shape for array in arrays], 1)
    name = dtype_name(_promoted(arrays) if dtype is None else dtype)
    return f"{name}:{_shapes.text(chain)}{_shapes.repeats(chain, arrays)}"


def _chain_of(arrays: Any, dtype: Any) -> Tuple[str, Optional[str], bool, Optional[str]]:
    found = _mmchain.chain_of(arrays, False)
    if found is NotImplemented:
        arrays = factors_of(arrays)
        found = chain_of(arrays)
    if found is NotImplemented:
        return (_text_of(arrays, dtype), *_device_of(arrays), None)
    text, number, rows = found
    if dtype is not None:
        text = dtype_name(dtype) + text[text.index(":") :]
        rows = None if rows is None else dtype_name(dtype) + rows[rows.index(":") :]
    return text, None if number is None else f"cuda:{number}", number is not None, rows


def chain_of_any(
    chain: Union[str, Sequence[Any]], dtype: Any = None, least: int = 1
) -> Tuple[Union[str, Tuple[str, List[int]]], Optional[str], bool, Optional[str]]:
    """A chain of at least so many factors, as text or as dtype and dims, `_device_of` its arrays, and the
    text of one product of as many rows where a stack of arrays is that."""
    if isinstance(chain, str):
        if dtype is not None:
            raise TypeError("dtype: expected None, as the chain's text says it")
        return chain, None, False, None
    if getattr(chain, "ndim", 0) > 2:
        return _chain_of(chain, dtype)
    try:
        if isinstance(chain, (bytes, bytearray)):
            raise TypeError
        items = chain if isinstance(chain, list) else list(chain)
    except TypeError:
        raise _no_chain([chain]) from None
    # What most chains are given by is found out first: the rest takes microseconds to ask for.
    if len(set(map(type, items))) == 1:
        kind = type(items[0])
        if kind is int or kind is tuple:
            name = "f64" if dtype is None else dtype_name(dtype)
            return _named(name, items, least), None, False, None
        if len(items) >= least and _are_dense(items, kind):
            return _chain_of(items, dtype)
    from ._sparse import is_sparse  # it needs this module

    if is_sparse(items):
        raise TypeError("arrays: expected dense ones: sparse factors are planned by sparse_plan")
    if any(type(item).__module__ == "mmchain._structure" for item in items):
        from ._structure import chain_text as structured_text  # it needs this module

        return structured_text(items, None if dtype is None else dtype_name(dtype)), None, False, None
    are_arrays = [hasattr(item, "shape") and not _is_size(item) for item in items]
    if len(items) >= least and all(are_arrays) and all(hasattr(item, "dtype") for item in items):
        return _chain_of(items, dtype)
    if any(are_arrays):
        raise _no_chain(items)
    name = dtype_name("float64" if dtype is None else dtype)
    return _named(name, items, least), None, False, None


def _are_dense(items: List[Any], kind: type) -> bool:
    """Whether items of one type are surely dense arrays, and no sizes."""
    if kind is np.ndarray:
        return bool(items[0].ndim > 0)
    torch = sys.modules.get("torch")
    if torch is None or kind is not torch.Tensor or items[0].ndim == 0:
        return False
    strided = torch.strided
    return not [item for item in items if item.layout is not strided]


def chain_text(
    chain: Union[str, Sequence[Any]], dtype: Any = None, least: int = 1
) -> Tuple[str, Optional[str]]:
    """The text of a chain of at least so many factors, and the device that its arrays lie on."""
    found, device, _, _ = chain_of_any(chain, dtype, least)
    return found if isinstance(found, str) else f"{found[0]}:{'x'.join(map(str, found[1]))}", device


def _no_chain(items: Sequence[Any]) -> TypeError:
    kinds = ", ".join(sorted({type(item).__name__ for item in items}))
    return TypeError(f"chain: expected a str, arrays, shapes or dims, as [10, 30, 5, 60], got {kinds}")


def _named(name: str, items: List[Any], least: int) -> Union[str, Tuple[str, List[int]]]:
    """A dtype and the dims of dims or shapes; as text where these are stacks of matrices."""
    dims, batch = _dims_of(items, least)
    return (name, dims) if batch == 1 else f"{name}:{'x'.join(map(str, dims))}@{batch}"


def _dims_of(items: List[Any], least: int) -> Tuple[List[int], int]:
    """The dims, given as they are or by the shapes of the factors, and how many chains there are."""
    exact = set(map(type, items)) == {int}
    if items and (exact or all(map(_is_size, items))):
        if len(items) <= least:
            raise ValueError(f"chain: expected at least {least + 1} dims, got {len(items)}")
        return (items if exact else [operator.index(item) for item in items]), 1
    try:
        if any(isinstance(item, (str, bytes)) for item in items):
            raise TypeError
        shapes = list(map(tuple, items))
    except TypeError:
        raise _no_chain(items) from None
    try:
        shapes = [tuple(map(operator.index, shape)) for shape in shapes]
    except TypeError:
        raise TypeError(f"chain: expected shapes of whole numbers, got {shapes!r:.60}") from None
    chain = _shapes.check(shapes, least)
    return chain.dims, math.prod(chain.stack)


def _is_size(item: Any) -> bool:
    return type(item) is int or (hasattr(item, "__index__") and getattr(item, "shape", ()) == ())


class Order(NamedTuple):
    """An order and what it costs.

    >>> str(mmchain.Order(4500, [(0, 1), (3, 2)]))
    '((A1 A2) A3)'
    """

    multiplications: int
    products: List[Tuple[int, int]]  # as of Plan.products()

    def __str__(self) -> str:
        return parenthesization(self.products)


def order(dims: Iterable[int]) -> Order:
    """The cheapest order of a chain of any length by its dims alone: factor i is of dims[i] x
    dims[i + 1].

    >>> best = mmchain.order([30, 35, 15, 5, 10, 20, 25])
    >>> best.multiplications, str(best)
    (15125, '((A1 (A2 A3)) ((A4 A5) A6))')
    """
    try:
        sizes = [operator.index(dim) for dim in dims]
    except TypeError:
        raise TypeError(f"dims: expected whole numbers, as [10, 30, 5, 60], got {dims!r:.60}") from None
    if len(sizes) < 2:
        raise ValueError(f"dims: expected at least 2, got {len(sizes)}")
    triples = _mmchain.order(sizes)
    count = sum(sizes[first] * sizes[split] * sizes[last + 1] for first, split, last in triples)
    return Order(count, _shapes.pairs_of(len(sizes) - 1, triples))


def _with_rule(text: str, checked: bool, mod: Optional[int], of_arrays: bool) -> str:
    """The chain's text with what its integers do; with `mod`, those of arrays become what `multi_dot` makes
    them, a dtype that holds the residues."""
    if mod is None and not checked:
        return text
    if mod is not None and checked:
        raise ValueError("checked: expected no mod with it, with which nothing overflows")
    name, colon, rest = text.partition(":")
    if not colon or not name.isalnum():
        raise ValueError(f"chain: expected a dtype of integers, without a rule of its own, got {text}")
    if mod is not None and of_arrays and name[0] in "iu":
        name = "u64" if name == "u64" else "i64"
    return f"{name}{'!' if mod is None else f'%{_shapes.rule_of(False, mod)}'}:{rest}"


def _transposes(text: str) -> bool:
    """Whether a chain's text has letters for ops, "10x30x5:TN". Beside words, as in "4x4x2:lower.T,N", an op says of
    which matrix the array is the transposed one."""
    letters = text.rpartition(":")[2].partition("=")[0].strip().upper()
    return not letters.strip("NTH") and letters.strip("N") != ""


def plan(
    chain: Union[str, Sequence[Any]],
    *,
    dtype: Any = None,
    objective: Objective = "time",
    device: Optional[Device] = None,
    precision: Precision = "native",
    solver: Solver = "auto",
    memory_limit: Optional[int] = None,
    max_slowdown: Optional[float] = None,
    order: Any = None,
    checked: bool = False,
    mod: Optional[int] = None,
    tolerance: Optional[float] = None,
) -> Plan:
    """Plans a chain.

    Parameters
    ----------
    chain : str, or sequence of arrays, of shapes or of dims
        "f32:10x30x5x60", [(10, 30), (30, 5), (5, 60)], [10, 30, 5, 60], or the arrays. The plan for
        "f32:16x16x16@1000" or for such stacks multiplies 1000 chains together. In "f32:16x16^1000",
        and where the same array is given several times, one matrix stands there each time, and
        must in `execute`.
    dtype : optional
        Of the elements: float64, or what the arrays are promoted to, when it is None.
    objective, device, precision, tolerance : as for `multi_dot`
    solver : str
        "auto", "hu-shing", "table", "brute" or "left-to-right".
    memory_limit : int, optional
        Bytes of workspace that the plan may use.
    max_slowdown : float, optional
        For objective "energy", at most so many times the predicted seconds of the plan for time,
        from 1; None for no bound.
    order : optional
        The order itself, kept whatever it costs: "((A1 A2) (A3 A4))", [[1, 2], [3, 4]], an `Order`, or
        a path of opt_einsum or cotengra, [(0, 1), (0, 1), (0, 1)].
    checked, mod : as for `multi_dot`, of integers; a text says them itself: "i64%97:4x4^9", "i64!:4x4^9"

    Examples
    --------
    >>> mmchain.plan([(30, 35), (35, 15), (15, 5), (5, 10), (10, 20), (20, 25)]).order
    '((A1 (A2 A3)) ((A4 A5) A6))'
    >>> mmchain.plan([10, 30, 5, 60], order="A1 (A2 A3)").multiplications
    27000
    >>> p = mmchain.plan("f32:10x30x5x60", objective="energy", max_slowdown=1.1)
    >>> p.predicted_seconds > 0 and p.predicted_joules > 0
    True
    """
    if isinstance(chain, str) and _transposes(chain):
        raise ValueError("chain: expected no ops; a transposed factor is a transposed array, a.T")
    source, here, on_device, rows = chain_of_any(chain, dtype)
    if checked or mod is not None:
        of_arrays = dtype is None and not isinstance(chain, str)
        source, rows = _with_rule(chain_text(chain, dtype)[0], checked, mod, of_arrays), None
    if objective == "time" and isinstance(source, str) and "~" in source:
        objective = "flops"  # as multi_dot plans products over semirings
    device = here if device is None else device
    given = None if order is None else order_text(order)
    arithmetic = precision if tolerance is None else _shapes.within(tolerance, precision)
    rest = (objective, device, arithmetic, solver, memory_limit, max_slowdown, on_device, given)
    made = Plan(source, *rest)
    if rows is None or given is not None or memory_limit is not None or _shapes.is_reproducible(arithmetic):
        return made
    # As `multi_dot`: the products of the stack may be rows of one.
    one = Plan(rows, *rest)
    return one if one._takes_less(made) else made
