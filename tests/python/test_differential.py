#!/usr/bin/env python3
"""test_differential.py CASES [SEED [CASE]]: random chains against NumPy in long double.

Every case draws a chain and how it is asked for: dtypes and dims, stacks that broadcast, vectors at the
ends, views with any strides, factors that repeat, powers, a NaN; the device, objective, precision,
solver and memory limit; a result of the caller's or a new one; plans that are saved and read; factors
with structure; running products; integers, modulo a number or not, which are compared with Python's.
Where MMCHAIN_LIBRARY names the shared library, its C functions are called too: ops, layouts, gaps,
batches at strides and at addresses. No element may be further off than rounding puts it (Higham 2002,
3.5), and a NaN must reach the elements that it reaches in NumPy, and no others.

Prints the seed. A case is drawn from (SEED, case number) alone: with CASE, it is the only one, told in
full. Without CASES, 300, or 10^4 with MMCHAIN_TEST_LONG. Exit status: 1 when a product is wrong, 77
without the package.
"""

import ctypes
import os
import random
import sys
import tempfile
import time

import numpy as np

try:
    import mmchain
except ImportError as error:
    print(f"no package: {error}")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../bench"))
from mmchain_ctypes import Library, Matrix, PlanOptions

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["float16", "float32", "float64", "complex64", "complex128"]
NAMES = {"float16": "f16", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"}
OPS = "NTH"


class Draw(random.Random):
    """Draws, and keeps a generator of NumPy's for the elements."""

    def __init__(self, seed, case):
        super().__init__(f"{seed}/{case}")
        self.elements = np.random.Generator(np.random.SFC64([seed, case]))
        self.told = []

    def tell(self, name, value):
        self.told.append(f"{name}={value}")
        return value

    def often(self, usual, *others):
        """The usual value half of the time."""
        return usual if self.random() < 0.5 else self.choice(others)


def array_of(draw, shape, dtype):
    values = draw.elements.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * draw.elements.standard_normal(shape)
    if dtype == "float16":  # products of many may not overflow
        values = values / np.sqrt(max(1, *shape))
    return values.astype(dtype)


def view_of(draw, shape, dtype):
    """An array of a shape, cut out of a larger one: any strides, axes in any order."""
    if draw.random() < 0.4:
        return array_of(draw, shape, dtype)
    axes = list(range(len(shape)))
    draw.shuffle(axes)
    steps = [draw.choice([1, 1, 1, 2, 3, -1, -2]) for _ in shape]
    margins = [draw.randrange(3) for _ in shape]
    sizes = [size * abs(step) + 2 * margin for size, step, margin in zip(shape, steps, margins)]
    base = array_of(draw, [sizes[a] for a in axes], dtype).transpose(np.argsort(axes))
    cuts = tuple(slice(m, m + size * abs(s), abs(s)) for size, s, m in zip(shape, steps, margins))
    turns = tuple(slice(None, None, -1 if s < 0 else 1) for s in steps)
    return base[cuts][turns]


def dims_of(draw, n):
    most = draw.often(6, 3, 9, 9, 9, 24, 24, 70 if n < 5 else 24)
    dims = [draw.randint(1, most) for _ in range(n + 1)]
    if draw.random() < 0.03:
        dims[draw.randrange(n + 1)] = 0
    return dims


def put_nan(draw, arrays, all_arrays=None):
    """Makes an element NaN at times. Where a dim is 0, the order decides whether it is met at all."""
    if draw.random() < 0.03 and all(array.size > 0 for array in all_arrays or arrays):
        array = draw.choice(arrays)
        if array.flags.writeable:
            array[tuple(draw.randrange(size) for size in array.shape)] = np.nan
            draw.tell("nan", True)


# ---- the product, as NumPy has it ---------------------------------------------------------------


def wide(array):
    return array.astype(np.clongdouble if array.dtype.kind == "c" else np.longdouble)


def product_of(factors):
    """The product of wide factors: the first may be a row vector, the last a column vector."""
    first, last = factors[0].ndim == 1, factors[-1].ndim == 1
    factors = list(factors)
    if first:
        factors[0] = factors[0][None, :]
    if last:
        factors[-1] = factors[-1][:, None]
    product = factors[0]
    for factor in factors[1:]:
        product = np.matmul(product, factor)
    if last:
        product = product[..., 0]
    if first:
        product = product[..., 0] if last else product[..., 0, :]
    return product


def wrong_integers(result, factors, dtype, modulus):
    """What is wrong with integers, which are exact: modulo a number, or 2^bits as NumPy's."""
    exact = product_of([factor.astype(object) for factor in factors])
    info = np.iinfo(dtype)
    least, count = (0, modulus) if modulus else (int(info.min), int(info.max) - int(info.min) + 1)
    expected = ((exact - least) % count + least).astype(dtype)
    if np.shape(result) != expected.shape or np.asarray(result).dtype != dtype:
        return f"{np.shape(result)} {np.asarray(result).dtype}, expected {expected.shape} {dtype}"
    return None if np.array_equal(result, expected) else f"{result}, expected {expected}"


def wrong(result, factors, dtype, modulus=None):
    """What is wrong with the result; None when nothing is."""
    if np.dtype(dtype).kind in "iu":
        return wrong_integers(result, factors, dtype, modulus)
    values = [wide(factor) for factor in factors]
    expected = product_of(values)
    if np.shape(result) != expected.shape or np.asarray(result).dtype != dtype:
        return f"{np.shape(result)} {np.asarray(result).dtype}, expected {expected.shape} {dtype}"
    lost = np.isnan(expected)
    if (np.isnan(result) != lost).any():
        return "NaN in other elements"
    inner = 1 + sum(factor.shape[0 if factor.ndim == 1 else -1] for factor in factors)
    eps = float(np.finfo(dtype).eps)
    magnitudes = [abs(factor).astype(np.float64) for factor in factors]
    bound = 8 * eps * inner * (1 + 1e-9) * product_of(magnitudes)
    # Intermediates may be denormal, and what that loses may grow.
    growth = 1.0 if dtype == np.float16 else np.prod([max(1, np.linalg.norm(m)) for m in magnitudes])
    least = inner * float(np.finfo(dtype).smallest_subnormal) * growth
    error = abs(np.asarray(wide(np.asarray(result))) - expected)
    far = ~(error <= bound + least) & ~lost
    if far.any():
        at = np.unravel_index(np.argmax(np.where(far, error, 0)), far.shape) if far.ndim else ()
        return f"off by {error[at]} at {at}, allowed are {bound[at]}; eps {eps}, inner {inner}"
    return None


# ---- cases --------------------------------------------------------------------------------------


def place_for(draw, shape, dtype):
    """Where the result goes: a new array, or one of the caller's that is full of NaN."""
    if draw.random() < 0.6:
        return None
    draw.tell("out", True)
    return np.full(shape, np.nan, dtype)


def ask_multi_dot(draw):
    """Arrays as users have them: views, stacks, vectors, of one dtype or of two."""
    n = draw.tell("n", draw.often(draw.randint(2, 4), 5, 6, 8, 20))
    dims = draw.tell("dims", dims_of(draw, n))
    dtype = draw.choice(DTYPES)
    dtypes = draw.tell("dtypes", ["float32", "float64"] if draw.random() < 0.1 else [dtype])
    stack = [draw.randint(0 if draw.random() < 0.1 else 1, 5) for _ in range(draw.often(0, 1, 1, 2))]
    shapes = []
    for i in range(n):
        own = stack[draw.randint(0, len(stack)) :]
        own = [1 if draw.random() < 0.3 else size for size in own]
        shape = own + [dims[i], dims[i + 1]]
        if i in (0, n - 1) and draw.random() < 0.15:
            shape = [dims[1]] if i == 0 else [dims[n - 1]]
        shapes.append(shape)
    draw.tell("shapes", shapes)
    arrays = [view_of(draw, shape, draw.choice(dtypes)) for shape in shapes]
    put_nan(draw, arrays)
    dtype = np.result_type(*arrays)
    options = {
        "objective": draw.choice(["time", "energy", "flops"]),
        "device": draw.often(None, "cpu", "blas", "ref"),
        "precision": draw.often("native", "faithful", "fast"),
    }
    draw.tell("options", options)
    out = place_for(draw, np.shape(product_of([np.empty(a.shape, "b1") for a in arrays])), dtype)
    return mmchain.multi_dot(arrays, out=out, **options), arrays, dtype


def ask_repeats(draw):
    """Some matrices that stand several times, squares among them."""
    dtype = draw.tell("dtype", draw.choice(DTYPES))
    sides = draw.tell("sides", [draw.randint(1, 9), draw.randint(1, 9)])
    stack = draw.tell("stack", draw.often([], [draw.randint(1, 4)], [2, 3]))
    kinds = [
        [view_of(draw, stack + shape, dtype) / np.asarray(4, dtype) for _ in range(2)]
        for shape in (sides, sides[::-1])
    ]
    square = draw.random() < 0.4
    if square:
        side = draw.often(draw.randint(1, 6), 12)
        power = view_of(draw, stack + [side, side], dtype) / np.asarray(2 * side**0.5, dtype)
        n = draw.tell("power", draw.randint(2, 40))
        arrays = [power] * n
    else:
        n = draw.tell("n", draw.randint(2, 14))
        arrays = [draw.choice(kinds[i % 2]) for i in range(n)]
    put_nan(draw, arrays[:1], arrays)
    return mmchain.multi_dot(arrays, objective=draw.choice(["time", "flops"])), arrays, arrays[0].dtype


def plan_options(draw, n):
    """Any options of a plan but its memory limit."""
    brute = "brute" if n <= 12 else "table"
    options = {
        "objective": draw.choice(["time", "energy", "flops", "traffic"]),
        "device": draw.often("cpu", "ref", "blas"),
        "precision": draw.often("native", "faithful", "fast"),
        "solver": draw.often("auto", "table", "hu-shing", "left-to-right", brute),
    }
    if options["objective"] == "energy":
        options["max_slowdown"] = draw.often(None, 1.0, 1.5)
    return options


def ask_plan(draw):
    """The text of a chain with a batch, and every option that a plan has."""
    n = draw.tell("n", draw.often(draw.randint(1, 4), 6, 9, 15))
    dims, dtype = dims_of(draw, n), draw.choice(DTYPES)
    batch = draw.often(None, 1, 2, 7, 7, 30)
    text = f"{NAMES[dtype]}:{'x'.join(map(str, dims))}{'' if batch is None else f'@{batch}'}"
    draw.tell("chain", text)
    options = plan_options(draw, n)
    draw.tell("options", options)
    plan = mmchain.plan(text, **options)
    if draw.random() < 0.2:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(draw.tell("saved", folder), "plan.json")
            plan.save(path)
            plan = mmchain.load_plan(path)
    if draw.random() < 0.3 and plan.workspace_bytes > 0:
        limit = draw.tell("memory_limit", draw.randint(1, plan.workspace_bytes))
        try:
            plan = mmchain.plan(text, memory_limit=limit, **options)
        except MemoryError:
            draw.tell("fits", False)
        else:
            if plan.workspace_bytes > limit:
                raise AssertionError(f"{plan.workspace_bytes} bytes of workspace")
    stack = [] if batch is None else [batch]
    arrays = [view_of(draw, stack + dims[i : i + 2], dtype) for i in range(n)]
    put_nan(draw, arrays)
    result = None
    for _ in range(draw.often(1, 2)):  # a plan may be executed again
        result = plan.execute(arrays, place_for(draw, (*stack, dims[0], dims[n]), dtype))
    return result, arrays, np.dtype(dtype)


def ask_integers(draw):
    """Integers of any size, exact: wrapping around, or modulo a number."""
    n = draw.tell("n", draw.often(draw.randint(2, 4), 7, 9))
    dims, dtype = draw.tell("dims", dims_of(draw, n)), np.dtype(draw.tell("dtype", draw.choice(INTEGERS)))
    stack = draw.tell("stack", draw.often([], [draw.randint(1, 3)]))
    info = np.iinfo(dtype)
    most = draw.tell("most", draw.often(info.max, 1, 100))
    least = draw.choice([0, max(info.min, -most - 1)])
    arrays = [
        draw.elements.integers(least, most, stack + dims[i : i + 2], dtype, endpoint=True) for i in range(n)
    ]
    largest = 2**63 - 1
    half, drawn = int(info.max) // 2, draw.randint(1, largest)
    modulus = draw.tell("modulus", draw.often(None, 1, 2, half, largest, drawn))
    options = {"device": draw.often(None, "cpu", "ref"), "objective": draw.choice(["time", "flops"])}
    draw.tell("options", options)
    if modulus:
        options["mod"] = modulus
        dtype = np.dtype("uint64" if dtype == np.uint64 else "int64")
    return mmchain.multi_dot(arrays, **options), arrays, dtype, modulus


def ask_structure(draw):
    """Square matrices of which something is known, the same ones transposed, and an oblong one behind."""
    side, dtype = draw.tell("side", draw.randint(1, 20)), draw.choice(DTYPES[1:])
    draw.tell("dtype", dtype)
    factors, asked = [], []
    for _ in range(draw.tell("n", draw.often(draw.randint(2, 4), 7, 12))):
        kind = draw.tell("kind", draw.choice(["plain", "lower", "upper", "symmetric", "transposed"]))
        array = array_of(draw, (side, side), dtype) / np.asarray(side**0.5, dtype)
        if kind == "transposed" and factors:
            array = factors[-1].T
        elif kind in ("lower", "upper"):
            array = np.tril(array) if kind == "lower" else np.triu(array)
        elif kind == "symmetric":
            array = (array + array.T) / np.asarray(2, dtype)
        factors.append(array)
        claim = getattr(mmchain, kind, None)
        asked.append(array if claim is None else claim(array))
    factors.append(view_of(draw, (side, draw.randint(1, 9)), dtype))
    objective = draw.tell("objective", draw.choice(["time", "flops"]))
    return mmchain.multi_dot(asked + factors[-1:], objective=objective), factors, np.dtype(dtype)


def ask_scan(draw):
    """One of the running products of a stack."""
    dtype = draw.tell("dtype", draw.choice(DTYPES))
    side = draw.tell("side", draw.often(draw.randint(1, 5), 17))
    length = draw.tell("length", draw.often(draw.randint(1, 9), 30, 100))
    stack = view_of(draw, (length, side, side), dtype) / np.asarray(2 * side**0.5, dtype)
    reverse = draw.tell("reverse", draw.random() < 0.4)
    exclusive = draw.tell("exclusive", draw.random() < 0.4)
    initial = array_of(draw, (side, side), dtype) if draw.random() < 0.4 else None
    products = mmchain.scan(stack, reverse=reverse, exclusive=exclusive, initial=initial)
    at = draw.tell("at", draw.randrange(length))
    factors = list(stack[at + exclusive :] if reverse else stack[: at + 1 - exclusive])
    if initial is not None:
        factors = [*factors, initial] if reverse else [initial, *factors]
    return products[at], factors or [np.eye(side, dtype=dtype)], np.dtype(dtype)


# ---- the C library ------------------------------------------------------------------------------


class ChainOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("batch", ctypes.c_int64), ("same", ctypes.c_void_p)]


DTYPE_NUMBERS = {"float32": 0, "float64": 1, "complex64": 2, "complex128": 3, "float16": 4}
MEMORY_LIMIT_STATUS = 31  # MMC_E_MEMORY_LIMIT


library = None  # set where MMCHAIN_LIBRARY names the shared library


def workspace_of(plan):
    library.c.mmc_plan_workspace_bytes.restype = ctypes.c_uint64
    return library.c.mmc_plan_workspace_bytes(plan)


def stored_for(draw, shape, dtype, batch, elements=True):
    """A matrix, or a batch of them, in memory of its own: with gaps, in either layout, at a stride or at
    addresses. Returns the memory, the matrices in it and in which order they are, and what the library is
    told."""
    rows, cols = shape
    by_columns = draw.random() < 0.3
    outer, inner = (cols, rows) if by_columns else (rows, cols)
    gap, between = draw.often(0, 1, 5), draw.often(0, 1, 3)
    ld = inner + gap
    room = (batch, outer * ld + between)
    memory = array_of(draw, room, dtype) if elements else np.full(room, np.nan, dtype)
    view = memory[:, : outer * ld].reshape(batch, outer, ld)[:, :, :inner]
    view = np.swapaxes(view, 1, 2) if by_columns else view
    stride, table, places = room[1], None, slice(None)
    if batch > 1 and draw.random() < 0.3:  # in any order
        places = list(range(batch))
        draw.shuffle(places)
        table = memory.ctypes.data + np.array(places, "i8") * stride * memory.itemsize
    told = Matrix(
        data=memory.ctypes.data,
        rows=rows,
        cols=cols,
        ld=draw.choice([0, ld]) if gap == 0 else ld,
        layout=by_columns,
        stride=stride if batch > 1 else 0,
        addresses=None if table is None else table.ctypes.data,
    )
    return (memory, table), (view, places), told


def plan_in(draw, library, chain, options):
    """A plan by these options, within a memory limit at times."""
    told = PlanOptions(
        max_slowdown=options.get("max_slowdown") or 0,
        **{key: options[key].encode() for key in ("solver", "device", "objective", "precision")},
    )
    if options["objective"] == "traffic":
        told.fuse = draw.often(b"exact", b"none", b"poster")
        told.on_chip_words = draw.often(0, 16, 100)
        if options["solver"] == "auto" and draw.random() < 0.2:
            told.fuse = b"joint"
    plan = ctypes.c_void_p()
    library.check(
        library.c.mmc_plan_create(library.context, chain, ctypes.byref(told), ctypes.byref(plan))
    )
    workspace = workspace_of(plan)
    if workspace == 0 or draw.random() > 0.3:
        return plan
    told.memory_limit_bytes = draw.tell("memory_limit", draw.randint(1, workspace))
    smaller = ctypes.c_void_p()
    status = library.c.mmc_plan_create(
        library.context, chain, ctypes.byref(told), ctypes.byref(smaller)
    )
    if status == MEMORY_LIMIT_STATUS:
        draw.tell("fits", False)
        return plan
    library.check(status)
    library.c.mmc_plan_destroy(plan)
    if workspace_of(smaller) > told.memory_limit_bytes:
        raise AssertionError("the workspace exceeds the limit")
    return smaller


def ask_library(draw):
    """Ops, batches at strides and at addresses, layouts, factors that are the same, by the C functions."""
    n = draw.tell("n", draw.often(draw.randint(1, 4), 6, 9, 15))
    dims, dtype = draw.tell("dims", dims_of(draw, n)), draw.tell("dtype", draw.choice(DTYPES))
    ops = draw.tell("ops", "".join(draw.choice("NNTH") for _ in range(n)))
    batch = draw.tell("batch", draw.often(1, 0, 2, 7, 7, 30))
    options = draw.tell("options", plan_options(draw, n))
    same = list(range(n))
    memories, views, told = [], [], (Matrix * n)()
    for i, op in enumerate(ops):
        shape = (dims[i], dims[i + 1]) if op == "N" else (dims[i + 1], dims[i])
        twin = [j for j in range(i) if ops[j] == op and dims[j : j + 2] == dims[i : i + 2]]
        if twin and draw.random() < 0.5:
            same[i] = same[twin[0]]
            views.append(views[same[i]])
            told[i] = told[same[i]]
            continue
        memory, view, told[i] = stored_for(draw, shape, dtype, batch)
        memories.append(memory)
        views.append(view)
    if batch > 0:
        put_nan(draw, [view for view, _ in views])
    draw.tell("same", same)
    place, (result, order), out = stored_for(draw, (dims[0], dims[n]), dtype, batch, elements=False)
    numbers = (ctypes.c_int64 * n)(*same)
    chain_options = ChainOptions(
        ctypes.sizeof(ChainOptions), batch, ctypes.addressof(numbers) if draw.random() < 0.5 else None
    )
    chain, plan, run = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    library.check(
        library.c.mmc_chain_create_batch(
            library.context,
            DTYPE_NUMBERS[dtype],
            ctypes.c_int64(n),
            (ctypes.c_int64 * (n + 1))(*dims),
            (ctypes.c_int * n)(*[OPS.index(op) for op in ops]),
            ctypes.byref(chain_options),
            ctypes.byref(chain),
        )
    )
    try:
        plan = plan_in(draw, library, chain, options)
        library.check(library.c.mmc_run_create(plan, ctypes.byref(run)))
        for _ in range(draw.often(1, 2)):
            library.check(library.c.mmc_execute(run, told, ctypes.byref(out)))
    finally:
        library.release((chain, plan, run))
    factors = []
    for (view, places), op in zip(views, ops):
        view = view[places]
        factor = view if op == "N" else np.swapaxes(view, 1, 2)
        factors.append(factor.conj() if op == "H" else factor)
    result = result[order]
    gaps = place[0].size - result.size
    if np.isnan(place[0]).sum() < gaps:
        raise AssertionError("elements beside the result were written")
    return result, factors, np.dtype(dtype)


CASES = [
    (0.25, ask_multi_dot),
    (0.1, ask_repeats),
    (0.15, ask_plan),
    (0.1, ask_integers),
    (0.1, ask_structure),
    (0.05, ask_scan),
    (0.25, ask_library),
]


def run_case(seed, case):
    draw = Draw(seed, case)
    chosen = draw.random()
    for share, ask in CASES:
        if chosen < share:
            break
        chosen -= share
    if ask is ask_library and library is None:
        ask = ask_multi_dot
    try:
        with np.errstate(all="ignore"):
            problem = wrong(*ask(draw))
    except Exception as error:  # any exception is a finding
        problem = f"{type(error).__name__}: {error}"
    return problem, f"{ask.__name__}: {', '.join(draw.told)}"


def main():
    global library
    if "MMCHAIN_LIBRARY" in os.environ:
        library = Library(os.environ["MMCHAIN_LIBRARY"])
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10000 if "MMCHAIN_TEST_LONG" in os.environ else 300
    given = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("MMCHAIN_TEST_SEED")
    seed = int(given) if given else 20260611
    if len(sys.argv) > 3:
        problem, told = run_case(seed, int(sys.argv[3]))
        print(told, problem or "right", sep="\n")
        return 1 if problem else 0
    began, found = time.monotonic(), 0
    for case in range(count):
        problem, told = run_case(seed, case)
        if problem:
            found += 1
            print(f"WRONG case {case} of seed {seed}: {told}\n      {problem}", flush=True)
            if found == 20:
                break
        if case % 100000 == 99999:
            print(f"{case + 1} cases in {time.monotonic() - began:.0f} s, {found} wrong", flush=True)
    print(f"{case + 1} cases of seed {seed} in {time.monotonic() - began:.0f} s, {found} wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
