"""What NumPy writes we read, and what we write is what NumPy writes, byte for byte.

    python3 test_npy_numpy.py PATH/TO/npy_roundtrip

Exit status: 0 all as it should be, 1 not, 77 without NumPy.
"""

import io
import itertools
import os
import subprocess
import sys
import tempfile
import warnings
import zlib

try:
    import numpy as np
    from numpy.lib import format as npy_format
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(77)

SEED = int(os.environ.get("MMCHAIN_TEST_SEED", "20240607"), 0)
LONG = "MMCHAIN_TEST_LONG" in os.environ
DTYPES = ("float16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64",
          "uint8", "uint16", "uint32", "uint64", "bool")
E_FORMAT = 11


class Roundtrip:
    """npy_roundtrip, one job after the other."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, layout, gap, ndim, source, target):
        self.process.stdin.write("\t".join((layout, str(gap), str(ndim), source, target)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n").split("\t")
        assert answer != [""], "npy_roundtrip died"
        return answer

    def close(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert rest == "", rest
        status = self.process.wait()
        assert status == 0, f"npy_roundtrip ended with {status}"


def saved(array):
    """The bytes that numpy.save writes."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def make(rng, dtype, shape):
    array = rng.standard_normal(shape)
    if dtype[0] in "iub":
        array = np.abs(100 * array) % 100
    if dtype.startswith("complex"):
        array = array + 1j * rng.standard_normal(shape)
    array = np.asarray(array, dtype=dtype)
    if array.size > 2 and array.dtype.kind in "fc":  # bits that must pass unchanged
        array.flat[0], array.flat[1], array.flat[2] = np.nan, -np.inf, -0.0
    return array


def check_array(roundtrip, path, array):
    """path holds array, however NumPy wrote it: read it, write it in every way, compare."""
    native = array.astype(array.dtype.newbyteorder("="))
    dtype = native.dtype.name
    in_columns = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
    memory = native.tobytes(order="F" if in_columns else "C")
    rows, cols = array.shape[-2:] if array.ndim > 1 else (1, array.size)
    expected = [dtype, str(array.ndim), str(rows), str(cols),
                "column" if in_columns else "row", str(zlib.adler32(memory))]
    for layout, gap in (("row", 0), ("row", 3), ("column", 0), ("column", 5)):
        target = path + ".out"
        answer = roundtrip(layout, gap, array.ndim, path, target)
        assert answer == expected, (path, answer, expected)
        with open(target, "rb") as file:
            written = file.read()
        assert written == saved(np.ascontiguousarray(native)), (path, layout, gap)
        back = np.load(target)
        assert back.dtype == native.dtype and back.shape == array.shape
        assert back.tobytes() == native.tobytes()
        os.unlink(target)


def test_every_kind(roundtrip, directory, rng):
    shapes = ((1,), (7,), (0,), (1, 1), (3, 5), (1, 9), (9, 1), (0, 5), (5, 0), (0, 0), (64, 33),
              (4, 3, 5), (2, 1, 3, 2, 2), (0, 3, 4), (3, 0, 4), (1, 1, 6), (7, 4, 1), (1,) * 32)
    path = os.path.join(directory, "kind.npy")
    count = 0
    for turn, (dtype, shape, order, layout, version) in enumerate(itertools.product(
            DTYPES, shapes, "<>", "CF", ((1, 0), (2, 0), (3, 0)))):
        if not LONG and turn % 3 != turn // 3 % 3:  # each kind in one version in short
            continue
        array = np.asarray(make(rng, dtype, shape).astype(np.dtype(dtype).newbyteorder(order)),
                           order=layout)
        with open(path, "wb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the versions
            npy_format.write_array(file, array, version=version)
        check_array(roundtrip, path, array)
        count += 1
    return count


def test_long_rows(roundtrip, directory, rng):
    """Rows and columns beyond any buffer."""
    path = os.path.join(directory, "long.npy")
    for shape in ((2, 150000), (150000, 2)):
        array = np.asfortranarray(make(rng, "float64", shape))
        np.save(path, array)
        check_array(roundtrip, path, array)
    return 2


def test_scalar(roundtrip, directory, rng):
    """A scalar is written as NumPy writes it, from a 1 x 1; it is no matrix to read."""
    path, target = os.path.join(directory, "one.npy"), os.path.join(directory, "scalar.npy")
    for dtype in DTYPES:
        array = make(rng, dtype, (1, 1))
        np.save(path, array)
        assert roundtrip("row", 0, 0, path, target)[0] == dtype
        with open(target, "rb") as file:
            assert file.read() == saved(array[0, 0])
        answer = roundtrip("row", 0, 0, target, path)
        assert answer[:2] == ["ERROR", str(E_FORMAT)] and "1 to 64 dimensions work" in answer[2]
    return len(DTYPES)


def test_memory_map(roundtrip, directory, rng):
    """numpy.lib.format.open_memmap writes its header by another way."""
    path = os.path.join(directory, "map.npy")
    for order in (False, True):
        array = make(rng, "float64", (17, 19))
        mapped = npy_format.open_memmap(path, mode="w+", dtype="<f8", shape=(17, 19),
                                        fortran_order=order)
        mapped[:] = array
        mapped.flush()
        del mapped
        check_array(roundtrip, path, np.asarray(array, order="F" if order else "C"))
    return 2


def test_what_no_factor_can_be(roundtrip, directory, rng):
    path, target = os.path.join(directory, "odd.npy"), os.path.join(directory, "never.npy")
    types = [np.dtype(code) for code in
             ("S5", "<U5", "V2", "V6", "M8[ns]",
              "m8[s]", "longdouble", "clongdouble", "O")]
    types += [np.dtype([("x", "<f4"), ("y", "<f8")]), np.dtype([("z", "<f8", (3, 3))])]
    for dtype in types:
        np.save(path, np.zeros((2, 3), dtype=dtype))
        answer = roundtrip("row", 0, 2, path, target)
        assert answer[:2] == ["ERROR", str(E_FORMAT)], (dtype, answer)
        assert "float16, float32, float64, complex64, complex128, int8 to int64" in answer[2], answer
        assert path in answer[2] and "dtype" in answer[2], answer
        if dtype.names is None:
            assert dtype.str in answer[2], (dtype, answer)
            name = np.dtype(dtype.type).name.split("[")[0].rstrip("0123456789")
            assert name[:4] in answer[2] or dtype.kind in "fcSUV", (name, answer)
        else:
            assert "structured" in answer[2], answer
    # A name beyond latin-1 makes NumPy write version 3.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.save(path, np.zeros(3, dtype=[("\u03b1", "<f8")]))
    answer = roundtrip("row", 0, 2, path, target)
    assert answer[:2] == ["ERROR", str(E_FORMAT)] and "structured" in answer[2], answer
    np.save(path, np.zeros(()))
    answer = roundtrip("row", 0, 2, path, target)
    assert answer[:2] == ["ERROR", str(E_FORMAT)], answer
    assert "0 dimensions: 1 to 64 dimensions work" in answer[2], answer
    np.savez(os.path.join(directory, "archive.npz"), a=np.zeros((2, 2)))
    answer = roundtrip("row", 0, 2, os.path.join(directory, "archive.npz"), target)
    assert "zip archive" in answer[2], answer
    assert not os.path.exists(target)
    return len(types) + 3


def test_headers_that_numpy_accepts(roundtrip, directory, rng):
    """Whatever header NumPy takes for a matrix of ours, we take, and with the same meaning; and what
    it refuses, we refuse."""
    path, target = os.path.join(directory, "header.npy"), os.path.join(directory, "header.out")
    pieces = {
        "descr": ("'<f8'", '">f4"', "'=c8'", "'|f8'", "'c16'", "u'<f8'", "'float32'",
                  "'<f2'", "'<i4'", "'<f8", "8", "['<f8']", "''"),
        "fortran_order": ("False", "True", "0", "'True'", "Falsy"),
        "shape": ("(2, 3)", "(2,3,)", "( 2 , 3 )", "(6,)", "(6)", "6", "[2, 3]", "(2L, 3L)",
                  "(-2, 3)", "(0, 3)", "()", "(1, 2, 3)", "(02, 3)", "(2.0, 3)", "(,)", "(2,,3)",
                  "(2 3)", "(2, 3", "(20, 30)"),
        "join": (", ", ",", " ,\n ", ",,", ""),
        "end": ("}", ", }", ",}", "} ", "}\n", "} 1", "}}", ""),
    }
    accepted = refused = 0
    count = 4000 if LONG else 1500
    for _ in range(count):
        # Mostly the first choice, so that many headers are good.
        pick = {name: choices[0] if rng.random() < 0.6 else choices[rng.integers(len(choices))]
                for name, choices in pieces.items()}
        keys = ["descr", "fortran_order", "shape"]
        rng.shuffle(keys)
        if rng.random() < 0.03:
            keys.pop()
        quote = "'\""[rng.integers(2)]
        text = "{" + pick["join"].join(f"{quote}{key}{quote}: {pick[key]}" for key in keys)
        text = (text + pick["end"]).encode("latin1")
        version = int(rng.integers(1, 3))
        size = len(text).to_bytes(2 if version == 1 else 4, "little")
        data = rng.integers(0, 256, 200, dtype=np.uint8).tobytes()[:rng.integers(90, 200)]
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY" + bytes((version, 0)) + size + text + data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                array = np.load(path)
            # NumPy takes a negative dimension for "as many as there are"; to us it is an error.
            good = array.dtype.name in DTYPES and array.ndim > 0 and b"-" not in text
        except Exception:  # NumPy fails in many ways
            good = False
        answer = roundtrip("row", 0, array.ndim if good else 2, path, target)
        if good:
            accepted += 1
            assert answer[0] == array.dtype.name, (text, answer)
            native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))
            with open(target, "rb") as file:
                assert file.read() == saved(native), text
        else:
            refused += 1
            # The L of old Python is read by us whatever later NumPys do.
            assert answer[0] == "ERROR" or b"L" in text, (text, answer)
    assert accepted > count // 10 and refused > count // 10, (accepted, refused)
    return accepted + refused


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"NumPy {np.__version__}, MMCHAIN_TEST_SEED={SEED}")
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    failures = 0
    for test in tests:
        roundtrip = Roundtrip(sys.argv[1])
        try:
            with tempfile.TemporaryDirectory() as directory:
                count = test(roundtrip, directory, np.random.default_rng(SEED))
            roundtrip.close()
            print(f"ok      {test.__name__} ({count})")
        except AssertionError as error:
            failures += 1
            roundtrip.process.kill()
            print(f"FAILED  {test.__name__}: {error}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
