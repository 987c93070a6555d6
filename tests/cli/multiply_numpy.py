#!/usr/bin/env python3
"""multiply_numpy.py MMCHAIN: `mmchain multiply` on files that NumPy wrote gives NumPy's own answer.

Chains of every dtype and length, also of several dtypes at once, stored in C and in Fortran order, in either byte order, in .npy
versions 1 to 3, sliced out of larger arrays, with ops, with 1-D arrays at the ends, with empty
dims. The answer has NumPy's shape and dtype and differs from NumPy's by rounding alone.
"""
import functools
import io
import os
import subprocess
import sys
import tempfile

import numpy as np

SEED = 20240607
ROUNDS = 150
DTYPES = ["float16", "float32", "float64", "complex64", "complex128"]


def run(mmchain, arguments, **options):
    return subprocess.run([mmchain, "multiply", *arguments], capture_output=True, **options)


def normal(random, dtype, shape):
    values = random.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * random.standard_normal(shape)
    if dtype == "float16":  # no product of many may overflow
        values = values / np.sqrt(max(1, *shape))
    return values.astype(dtype)


def store(random, array, path):
    """Saves array the way that NumPy keeps it: some order, some byte order, some version."""
    if random.random() < 0.5:
        array = np.asfortranarray(array)
    if random.random() < 0.3:
        array = array.astype(array.dtype.newbyteorder(">"))
    if array.ndim == 2 and random.random() < 0.2:
        wide = np.zeros((array.shape[0], 2 * array.shape[1]), dtype=array.dtype)
        wide[:, ::2] = array
        array = wide[:, ::2]
    version = [(1, 0), (2, 0), (3, 0)][random.integers(3)]
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def applied(op, stored):
    if op == "H":
        return stored.conj().T
    return stored.T if op == "T" else stored


def make_chain(random, folder, dtype):
    """Files of a chain, as arguments, and the arrays after their ops."""
    n = int(random.integers(1, 7))
    dims = [int(dim) for dim in random.integers(1, 40, n + 1)]
    if random.random() < 0.1:
        dims[random.integers(n + 1)] = 0
    vectors = [False] * n
    if n >= 2:
        vectors[0], vectors[-1] = random.random() < 0.25, random.random() < 0.25
    arguments, arrays = [], []
    for i in range(n):
        op = ["", "N", "T", "H"][random.integers(4)]
        if vectors[i]:
            shape = (dims[i + 1] if i == 0 else dims[i],)
        else:
            shape = (dims[i + 1], dims[i]) if op in ("T", "H") else (dims[i], dims[i + 1])
        stored = normal(random, DTYPES[random.integers(len(DTYPES))] if dtype == "mixed" else dtype, shape)
        path = os.path.join(folder, f"A{i + 1}.npy")
        store(random, stored, path)
        arguments.append(path + (":" + op if op else ""))
        arrays.append(applied(op, stored))
    return arguments, arrays


def product_in(precision, arrays):
    wide = [array.astype(precision) for array in arrays]
    if len(wide) == 1:
        return wide[0]
    if len(wide) == 2:
        return wide[0] @ wide[1]
    return np.linalg.multi_dot(wide)


def compare(arrays, result):
    """What is wrong with the result; None when nothing is."""
    own = product_in(np.result_type(*arrays), arrays)
    if result.shape != np.shape(own) or result.dtype != own.dtype:
        return f"{result.shape} {result.dtype}, NumPy gives {np.shape(own)} {own.dtype}"
    if result.size == 0:
        return None
    wide = np.complex128 if np.iscomplexobj(own) else np.float64
    reference = product_in(wide, arrays)
    scale = functools.reduce(np.matmul, [abs(array.astype(wide)) for array in arrays])
    inner = sum(array.shape[0] for array in arrays[1:]) + 1
    bound = 4 * np.finfo(own.dtype).eps * inner * scale
    if own.dtype == np.float16:  # the least step, for each intermediate that is denormal
        bound = bound + inner * 2.0**-24
    difference = abs(result.astype(wide) - reference)
    if not np.all(difference <= bound):
        return f"off by {np.max(difference)}, allowed are {np.min(bound)}"
    return None


def check_random_chains(mmchain, folder):
    random = np.random.default_rng(SEED)
    for turn in range(ROUNDS):
        dtype = [*DTYPES, "mixed"][turn % (len(DTYPES) + 1)]
        arguments, arrays = make_chain(random, folder, dtype)
        output = os.path.join(folder, "R.npy")
        device = ["cpu", "ref"][turn % 2]
        done = run(mmchain, [*arguments, "-o", output, "--check", "--on", device])
        assert done.returncode == 0, (turn, arguments, done)
        wrong = compare(arrays, np.load(output))
        assert wrong is None, (turn, arguments, [a.shape for a in arrays], dtype, wrong)
        os.remove(output)


def transposed(op, stored):
    if op == "H":
        return stored.conj().swapaxes(-1, -2)
    return stored.swapaxes(-1, -2) if op == "T" else stored


def check_stacks(mmchain, folder):
    """Leading dimensions broadcast as numpy.matmul's do; the same file may be given several times.
    """
    random = np.random.default_rng(SEED + 2)
    output = os.path.join(folder, "R.npy")
    for turn in range(ROUNDS):
        dtype = DTYPES[turn % len(DTYPES)]
        n, axes = int(random.integers(1, 5)), [int(size) for size in random.integers(0, 4, 3)]
        dims = [int(dim) for dim in random.integers(1, 9, n + 1)]
        arguments, arrays = [], []
        for i in range(n):
            op = ["", "N", "T", "H"][random.integers(4)]
            lead = axes[len(axes) - int(random.integers(len(axes) + 1)):]
            lead = [1 if random.random() < 0.3 else size for size in lead]
            core = (dims[i + 1], dims[i]) if op in ("T", "H") else (dims[i], dims[i + 1])
            stored = normal(random, dtype, (*lead, *core))
            path = os.path.join(folder, f"S{i + 1}.npy")
            store(random, stored, path)
            times = int(random.integers(1, 4)) if dims[i] == dims[i + 1] else 1
            power = f"^{times}" if times > 1 or random.random() < 0.2 else ""
            arguments.append(path + (":" + op if op else "") + power)
            arrays += [transposed(op, stored)] * times
        done = run(mmchain, [*arguments, "-o", output, "--check", "--on", ["cpu", "ref"][turn % 2]])
        assert done.returncode == 0, (turn, arguments, done)
        result = np.load(output)
        wide = np.complex128 if np.iscomplexobj(arrays[0]) else np.float64
        reference = functools.reduce(np.matmul, [array.astype(wide) for array in arrays])
        assert result.shape == reference.shape and result.dtype == np.dtype(dtype), (
            turn, arguments, result.shape, reference.shape)
        scale = functools.reduce(np.matmul, [abs(array.astype(wide)) for array in arrays])
        inner = sum(array.shape[-2] for array in arrays[1:]) + 1
        bound = 4 * np.finfo(result.dtype).eps * inner * scale
        if dtype == "float16":
            bound = bound + inner * 2.0**-24
        assert np.all(abs(result.astype(wide) - reference) <= bound), (turn, arguments)
        os.remove(output)


def check_streams(mmchain, folder):
    random = np.random.default_rng(SEED + 1)
    a, b = normal(random, "float64", (3, 4)), normal(random, "float64", (4, 5))
    path = os.path.join(folder, "b.npy")
    np.save(path, b)
    stream = io.BytesIO()
    np.save(stream, a)
    done = run(mmchain, ["-", path, "-o", "-"], input=stream.getvalue())
    assert done.returncode == 0, done
    assert compare([a, b], np.load(io.BytesIO(done.stdout))) is None


def check_exact(mmchain, folder):
    """Whole numbers leave no room for rounding: the bytes are those that NumPy would save."""
    output, own = os.path.join(folder, "R.npy"), io.BytesIO()
    factors = [np.arange(r * c, dtype="f8").reshape(r, c) for r, c in [(3, 4), (4, 2), (2, 5)]]
    paths = []
    for i, factor in enumerate(factors):
        paths.append(os.path.join(folder, f"exact{i}.npy"))
        np.save(paths[-1], np.asfortranarray(factor) if i == 1 else factor)
    assert run(mmchain, [*paths, "-o", output]).returncode == 0
    np.save(own, np.linalg.multi_dot(factors))
    with open(output, "rb") as file:
        assert file.read() == own.getvalue()


def check_refused(mmchain, folder):
    """What NumPy writes and no chain can hold is refused, and nothing is written."""
    output = os.path.join(folder, "refused.npy")
    for array in [
        np.zeros((2, 2), dtype="V2"),
        np.zeros((2, 2), dtype="longdouble"),
        np.array([["a", "b"]]),
        np.zeros((2, 2), dtype=[("x", "f8"), ("y", "i4")]),
        np.array([[None, 1]], dtype=object),
        np.float64(3),
    ]:
        path = os.path.join(folder, "bad.npy")
        np.save(path, array, allow_pickle=True)
        done = run(mmchain, [path, "-o", output])
        lines = done.stderr.decode().splitlines()
        assert done.returncode == 2 and len(lines) == 1 and path in lines[0], (array.dtype, done)
        assert not os.path.exists(output)


def main():
    mmchain = os.path.realpath(sys.argv[1])
    print(f"NumPy {np.__version__}, seed {SEED}")
    with tempfile.TemporaryDirectory() as folder:
        for check in [check_random_chains, check_stacks, check_streams, check_exact, check_refused]:
            check(mmchain, folder)
            print(f"ok   {check.__name__}")


main()
