"""DLPack: capsules old and new, the exchange functions of a type, and memory of our own."""

import ctypes as c

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain
from chains import DTYPES, assert_close, random_chain

from_dlpack = getattr(np, "from_dlpack", None)
needs_numpy_dlpack = pytest.mark.skipif(from_dlpack is None, reason="NumPy without DLPack")
versioned = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy without DLPack 1.0"
)


def execute(arrays, out=None, plan=None, stream=None):
    return _mmchain.execute(plan, arrays, out, "time", None, "native", stream, False)


# ---- capsules --------------------------------------------------------------------------------


def old(array):
    return array.__dlpack__()


def new(array):
    return array.__dlpack__(max_version=(1, 0))


@needs_numpy_dlpack
@pytest.mark.parametrize("export", [old, pytest.param(new, marks=versioned)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_capsules(rng, dtype, export):
    arrays = random_chain(rng, [4, 3, 5, 2], dtype)
    arrays[1] = np.asfortranarray(arrays[1])
    capsules = [export(a) for a in arrays]
    out = np.full((4, 2), 7, dtype)
    target = export(out)
    assert execute(capsules, target) is target
    assert_close(out, arrays)
    # They are looked at, not consumed.
    out[:] = 0
    execute(capsules, target)
    assert_close(out, arrays)


@needs_numpy_dlpack
def test_capsules_of_any_strides(rng):
    """What lies on the host is written out first; of several dtypes only NumPy's arrays are."""
    a, b = random_chain(rng, [4, 3, 5])
    spread = np.full((8, 6), np.nan)
    spread[::2, ::2] = a
    out = np.full((4, 5), 7.0)
    target = old(out)
    assert execute([old(spread[::2, ::2]), old(b)], target) is target
    assert_close(out, [a, b])
    assert execute([old(a.astype("f")), old(b)], old(out)) is NotImplemented


@needs_numpy_dlpack
def test_capsules_that_will_not_do(rng):
    arrays = random_chain(rng, [4, 3, 5])
    capsules = [old(a) for a in arrays]
    good = old(np.zeros((4, 5)))
    assert execute(capsules) is NotImplemented  # nobody to ask for a result
    assert execute(capsules, old(np.zeros((5, 4)))) is NotImplemented
    assert execute(capsules, old(np.zeros((4, 5), "f"))) is NotImplemented
    assert execute([old(arrays[0].astype(int)), capsules[1]], good) is NotImplemented
    assert execute([c.py_object(3), capsules[1]], good) is NotImplemented
    consumed = old(arrays[0])
    from_dlpack(Holder(consumed))
    assert execute([consumed, capsules[1]], good) is NotImplemented


@versioned
def test_read_only_capsule(rng):
    a, b = random_chain(rng, [4, 3, 5])
    out = np.zeros((4, 5))
    out.flags.writeable = False
    assert execute([a, b], new(out)) is NotImplemented
    a.flags.writeable = False
    target = np.zeros((4, 5))
    assert execute([new(a), new(b)], new(target)) is not NotImplemented
    assert_close(target, [a, b])


class Holder:
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


# ---- a library with the exchange functions ----------------------------------------------------


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class Dtype(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device", Device),
        ("ndim", c.c_int32),
        ("dtype", Dtype),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class Managed(c.Structure):
    pass


Deleter = c.PYFUNCTYPE(None, c.POINTER(Managed))
Managed._fields_ = [
    ("major", c.c_uint32),
    ("minor", c.c_uint32),
    ("manager", c.c_void_p),
    ("deleter", Deleter),
    ("flags", c.c_uint64),
    ("tensor", Tensor),
]
SetError = c.PYFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_char_p)
Allocate = c.PYFUNCTYPE(
    c.c_int, c.POINTER(Tensor), c.POINTER(c.POINTER(Managed)), c.c_void_p, SetError
)
FromObject = c.PYFUNCTYPE(c.c_int, c.py_object, c.c_void_p)
ToObject = c.PYFUNCTYPE(c.c_int, c.POINTER(Managed), c.POINTER(c.c_void_p))
Borrow = c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(Tensor))
Stream = c.PYFUNCTYPE(c.c_int, c.c_int32, c.c_int32, c.POINTER(c.c_void_p))


class Table(c.Structure):
    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("previous", c.c_void_p),
        ("allocate", Allocate),
        ("from_object", FromObject),
        ("to_object", ToObject),
        ("borrow", Borrow),
        ("stream", Stream),
    ]


CODES = {"f": 2, "c": 5}
KINDS = {(2, 16): "e", (2, 32): "f", (2, 64): "d", (5, 64): "F", (5, 128): "D"}
living = {}  # managed tensors of the library, by address
frees = []


def fill(tensor, array):
    sizes = (c.c_int64 * max(array.ndim, 1))(*array.shape)
    strides = (c.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))
    tensor.data, tensor.ndim, tensor.device = array.ctypes.data, array.ndim, Device(1, 0)
    tensor.dtype = Dtype(CODES[array.dtype.kind], 8 * array.itemsize, 1)
    tensor.shape, tensor.strides = sizes, strides
    tensor.byte_offset = 0
    return sizes, strides


@Borrow
def borrow(thing, tensor):
    if thing.refuses:
        c.pythonapi.PyErr_SetString(c.py_object(RuntimeError), b"no memory here")
        return -1
    thing.kept = fill(tensor[0], thing.array)
    return 0


@Deleter
def delete(managed):
    frees.append(c.addressof(managed[0]))
    del living[c.addressof(managed[0])]


@Allocate
def allocate(prototype, out, context, set_error):
    p = prototype[0]
    if Thing.full:
        set_error(context, b"Full", b"no room")
        return -1
    shape = [p.shape[d] for d in range(p.ndim)]
    array = np.full(shape, np.nan, KINDS[p.dtype.code, p.dtype.bits])
    managed = Managed(1, 1, None, delete, 0)
    kept = fill(managed.tensor, array)
    living[c.addressof(managed)] = (managed, array, kept)
    out[0] = c.pointer(managed)
    return 0


@ToObject
def to_object(managed, out):
    _, array, _ = living.pop(c.addressof(managed[0]))
    thing = Thing(array)
    c.pythonapi.Py_IncRef(c.py_object(thing))
    out[0] = id(thing)
    return 0


table = Table(1, 3, None, allocate, FromObject(), to_object, borrow, Stream())
c.pythonapi.PyCapsule_New.restype = c.py_object
c.pythonapi.PyCapsule_New.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]


class Thing:
    __dlpack_c_exchange_api__ = c.pythonapi.PyCapsule_New(
        c.addressof(table), b"dlpack_exchange_api", None
    )
    full = False

    def __init__(self, array, requires_grad=False, refuses=False, neg=False):
        self.array, self.requires_grad, self.refuses, self.neg = array, requires_grad, refuses, neg

    def is_neg(self):
        return self.neg


class Heir(Thing):
    """A subclass may mean something else by its memory."""


@pytest.mark.parametrize("dtype", DTYPES)
def test_exchange(rng, dtype):
    arrays = random_chain(rng, [4, 3, 5, 2], dtype)
    arrays[1] = np.asfortranarray(arrays[1])
    result = mmchain.multi_dot([Thing(a) for a in arrays])
    assert type(result) is Thing and not living
    assert_close(result.array, arrays)
    out = Thing(np.zeros((2, 4), dtype).T)  # column-major will do
    assert mmchain.multi_dot([Thing(a) for a in arrays], out=out) is out
    assert_close(out.array, arrays)
    stack = mmchain.multi_dot([Thing(np.stack([arrays[0]] * 3)), Thing(arrays[1])])
    assert stack.array.shape == (3, 4, 5)
    scalar = mmchain.multi_dot(
        [Thing(arrays[0][0]), Thing(arrays[1]), Thing(arrays[2][:, 0].copy())]
    )
    assert type(scalar) is Thing and scalar.array.shape == ()


def test_exchange_of_any_strides(rng):
    a, b = random_chain(rng, [4, 3, 5])
    spread = np.full((8, 6), np.nan)
    spread[::2, ::2] = a
    assert_close(execute([Thing(spread[::2, ::2]), Thing(b)]).array, [a, b])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "kind, quirk",
    [
        (Thing, {"refuses": True}),
        (Thing, {"requires_grad": True}),
        (Thing, {"neg": True}),
        (Heir, {}),
    ],
)
def test_exchange_leaves_to_others(rng, kind, quirk):
    a, b = random_chain(rng, [4, 3, 5])
    assert execute([kind(a, **quirk), Thing(b)]) is NotImplemented
    assert execute([Thing(a), b]) is NotImplemented
    assert execute([Thing(a), Thing(b)], np.zeros((4, 5))) is NotImplemented


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_exchange_that_fails(rng, monkeypatch):
    a, b = random_chain(rng, [4, 3, 5])
    monkeypatch.setattr(Thing, "full", True)
    # ctypes keeps the exception that is set for it to itself.
    with pytest.raises((RuntimeError, MemoryError)):
        execute([Thing(a), Thing(b)])
    monkeypatch.setattr(Thing, "full", False)
    del frees[:]
    with pytest.raises(ValueError, match="objective"):
        _mmchain.execute(None, [Thing(a), Thing(b)], None, "x", None, "native", None, False)
    assert not living


def test_exchange_of_another_major_version(rng):
    a, b = random_chain(rng, [4, 3, 5])
    late = Table(2, 0, None, allocate, FromObject(), to_object, borrow, Stream())
    capsule = c.pythonapi.PyCapsule_New(c.addressof(late), b"dlpack_exchange_api", None)
    Late = type("Late", (), {"__dlpack_c_exchange_api__": capsule})
    assert execute([Late(), Late()]) is NotImplemented
    late2 = Table(2, 0, c.addressof(table), allocate, FromObject(), to_object, borrow, Stream())
    capsule2 = c.pythonapi.PyCapsule_New(c.addressof(late2), b"dlpack_exchange_api", None)
    Both = type("Both", (Thing,), {"__dlpack_c_exchange_api__": capsule2})
    assert_close(mmchain.multi_dot([Both(a), Both(b)]).array, [a, b])


# ---- memory of our own -----------------------------------------------------------------------


@needs_numpy_dlpack
@pytest.mark.parametrize("shape", [(3, 4), (5,), (), (0, 3), (2, 3, 4)])
def test_our_memory(shape):
    ours = _mmchain.Array("cpu", "f64", shape)
    view = from_dlpack(ours)
    assert view.shape == shape and view.dtype == np.float64
    assert view.strides == np.empty(shape).strides or 0 in shape
    assert ours.__dlpack_device__() == (1, 0)
    if view.flags.writeable:
        view[...] = 3
        del ours
        assert (view == 3).all()


@needs_numpy_dlpack
def test_result_in_our_memory(rng):
    arrays = random_chain(rng, [4, 3, 5])
    ours = _mmchain.Array("cpu", "f64", (4, 5))
    for major in (0, 1):
        execute([old(a) for a in arrays], ours.__dlpack__(max_version=(major, 0)))
        assert_close(from_dlpack(ours), arrays)


def test_our_memory_refuses():
    with pytest.raises(ValueError, match="dtype"):
        _mmchain.Array("cpu", "i128", (3,))
    with pytest.raises(ValueError, match="shape"):
        _mmchain.Array("cpu", "f64", (2**40, 2**40))
    with pytest.raises(Exception, match="abacus"):
        _mmchain.Array("abacus", "f64", (3,))
    ours = _mmchain.Array("cpu", "f64", (3,))
    with pytest.raises(BufferError):
        ours.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        ours.__dlpack__(dl_device=(2, 0))
    ours.__dlpack__(dl_device=(1, 0), stream=None, copy=False)
