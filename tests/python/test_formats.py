"""Files of every format: what NumPy, h5py, SciPy and safetensors write we read, and they read what we
write, to the last bit. What no factor can be is refused with a reason.

    python3 test_formats.py PATH/TO/mmchain [--all]

A library that is missing is told and left out; with --all that is a failure.
Exit status: 0 all as it should be, 1 not, 77 without NumPy.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(77)

SEED = int(os.environ.get("MMCHAIN_TEST_SEED", "7"), 0)
random = np.random.default_rng(SEED)
mmchain = os.path.realpath(sys.argv[1])
ENVIRONMENT = {**os.environ, "MMCHAIN_WISDOM": ""}
ALL = ("float16", "float32", "float64", "complex64", "complex128")
WIDE = ALL[1:]
FAULTS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "faults")
LONG = "MMCHAIN_TEST_LONG" in os.environ or "--all" in sys.argv
SHAPES = ((3, 5), (0, 4)) + ((1, 7), (7, 1), (1, 1), (300, 41)) * LONG


def run(*arguments):
    return subprocess.run([mmchain, *arguments], capture_output=True, text=True, env=ENVIRONMENT)


def here():
    """The formats that the command can read."""
    return {f["name"] for f in json.loads(run("info", "--json").stdout)["formats"] if f["available"]}


def convert(source, target):
    """Copies by `multiply` of one factor."""
    done = run("multiply", source, "-o", target, "--on", "ref", "--no-sync")
    assert done.returncode == 0, (source, target, done.stderr)


def read(source):
    """What the command reads, as NumPy's array."""
    convert(source, "read.npy")
    return np.load("read.npy")


def refused(source, text, status=2, target="refused.npy"):
    done = run("multiply", source, "-o", target, "--on", "ref", "--no-sync")
    assert done.returncode == status and text in done.stderr, (source, target, done)
    assert len(done.stderr.splitlines()) == 1, done.stderr


def array(dtype, shape):
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    values = np.asarray(values).astype(dtype)
    if values.size > 3:
        values.flat[0], values.flat[1], values.flat[2] = np.nan, -np.inf, -0.0
    return values


def same(got, wanted):
    wanted = np.ascontiguousarray(wanted)
    assert got.dtype == wanted.dtype.newbyteorder("="), (got.dtype, wanted.dtype)
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    native = wanted.astype(got.dtype)
    nan = np.isnan(got) & np.isnan(native) if got.dtype.kind in "fc" else np.zeros(got.shape, bool)
    bits = [np.where(nan, 0, x).astype(got.dtype).tobytes() for x in (got, native)]
    assert bits[0] == bits[1], (got, native)


def file_of(values, name="written.npy"):
    np.save(name, values)
    return name


# ---- NumPy's archives ------------------------------------------------------------------------


def test_npz():
    for dtype in ALL:
        for shape in SHAPES + ((6,), (2, 3, 4)):
            a, b = array(dtype, shape), array(dtype, shape)
            for save in (np.savez, np.savez_compressed):
                save("a.npz", w=a, other=b)
                same(read("a.npz:w"), a)
                same(read("a.npz:other.npy"), b)
            convert(file_of(a), "b.npz:w")
            with zipfile.ZipFile("b.npz") as archive:
                assert archive.testzip() is None
            with np.load("b.npz") as back:
                assert back.files == ["w"]
                same(back["w"], a)
            same(read("b.npz"), a)
    a = np.asfortranarray(array("float64", (5, 4)))
    np.savez("a.npz", T=a, big=a.astype(">f8"))
    same(read("a.npz:big"), a)
    same(read("a.npz:T:N"), a)  # what ends with :T ends with an op
    np.savez("power.npz", **{"x^2": a, "other": a[:1]})
    same(read("power.npz:x^2:N"), a)
    same(read("a.npz:T:T"), a.T)
    np.savez("one.npz", a)
    same(read("one.npz:T"), a.T)


def test_npz_refused():
    a = array("float64", (3, 4))
    np.savez("a.npz", x=a, y=a, whole=np.array(["a"]))
    refused("a.npz", "it holds x, y, whole: say which, as in a.npz:x")
    refused("a.npz:z", "no 'z' in it: it holds x, y, whole")
    refused("a.npz:whole", "str")
    refused("none.npz", "No such file")
    open("text.npz", "w").write("no archive, but long enough to be one of some kind")
    refused("text.npz:x", "not an .npz file")
    with zipfile.ZipFile("z.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.write(file_of(a), "x.npy")
    refused("z.npz", "compression method 12")
    np.savez_compressed("c.npz", x=np.zeros((500, 500)))
    whole = bytearray(open("c.npz", "rb").read())
    for cut in (1, 10, 30, len(whole) // 2, len(whole) - 10):
        open("cut.npz", "wb").write(whole[:-cut])
        assert run("multiply", "cut.npz:x", "-o", "refused.npy").returncode == 2
    at = whole.find(b"PK\1\2") + 16  # the checksum in the directory
    whole[at] ^= 1
    open("sum.npz", "wb").write(whole)
    refused("sum.npz:x", "damaged zip archive")
    # A result would replace what else is in the file.
    refused(file_of(a), "it holds y, whole, and", target="a.npz:x")
    convert(file_of(a), "one.npz:x")
    convert(file_of(2 * a), "one.npz:x")
    same(read("one.npz"), 2 * a)
    refused("one.npz:x", "the same file", target="one.npz:x")


ELSEWHERE = 2**32 - 1  # "the extra field has it"


def zip_bytes(data, flags=0, method=0, extra=None, at=0, sizes=None, mark=b"PK\1\2", end64=None):
    """An archive of the one member w.npy, by hand. extra is the directory's field with what has no room,
    end64 makes the ZIP64 records at the end, whose place and mark it says."""
    name, sizes = b"w.npy", sizes or (len(data), len(data))
    facts = struct.pack("<HHHHHIIIH", 45, flags, method, 0, 33, zlib.crc32(data), *sizes, len(name))
    local = b"PK\3\4" + facts + struct.pack("<H", 0) + name
    extra = extra or b""
    entry = mark + struct.pack("<H", 45) + facts
    entry += struct.pack("<HHHHII", len(extra), 0, 0, 0, 0, at) + name + extra
    begin = len(local) + len(data)
    end, far = b"", (len(entry), begin)
    if end64 is not None:
        place, end_mark = end64
        end = end_mark + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, len(entry), begin)
        end += b"PK\6\7" + struct.pack("<IQI", 0, begin + len(entry) + place, 1)
        far = (ELSEWHERE, ELSEWHERE)
    end += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, *far, 0)
    return local + data + entry + end


def piped(name, content, wanted=None, refusal=None):
    """What comes from a pipe is read as the file is, or refused."""
    os.mkfifo(name)
    writer = threading.Thread(target=lambda: open(name, "wb").write(content))
    writer.start()
    if refusal is None:
        same(read(name + ":w"), wanted)
    else:
        refused(name + ":w", refusal)
    writer.join()
    os.unlink(name)


def test_npz_by_hand():
    a = array("float64", (30, 4))
    data = open(file_of(a), "rb").read()
    size = struct.pack("<QQ", len(data), len(data))

    def good(**changes):
        open("z.npz", "wb").write(zip_bytes(data, **changes))
        same(read("z.npz:w"), a)

    def bad(text, **changes):
        open("z.npz", "wb").write(zip_bytes(data, **changes))
        refused("z.npz:w", text)

    far = (ELSEWHERE, ELSEWHERE)
    good()
    good(extra=b"??\2\0xy")
    good(sizes=far, extra=b"??\2\0xy" + b"\1\0\x10\0" + size)
    good(sizes=far, at=ELSEWHERE, extra=b"\1\0\x18\0" + size + bytes(8))
    good(end64=(0, b"PK\6\6"))
    bad("cut off", sizes=far, extra=b"\1\0\x08\0" + size[:8])
    bad("cut off", sizes=far, extra=b"\1\0\xff\0" + size)
    bad("cut off", mark=b"PK\1\3")
    bad("lies outside", sizes=far, extra=b"\1\0\x10\0" + struct.pack("<QQ", 2**63, 2**63))
    bad("lies outside", at=7)
    bad("lies outside", at=2**31)
    bad("the end of its directory lies outside", end64=(2**40, b"PK\6\6"))
    bad("the end of its directory lies outside", end64=(0, b"PK\6\5"))
    bad("an encrypted member", flags=1)
    whole = zip_bytes(data)
    open("z.npz", "wb").write(whole[:-22] + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 2**30, 0, 0))
    refused("z.npz:w", "its directory lies outside")
    open("z.npz", "wb").write(b"PK\5\6" + bytes(18))
    refused("z.npz", "it holds no arrays")
    refused("z.npz:w", "no 'w' in it: it holds no arrays")
    open("z.npz", "wb").write(whole[:21])
    refused("z.npz:w", "not an .npz file")
    open("z.npz", "wb").write(whole[:-22] + bytes(22))
    refused("z.npz:w", "no directory at its end")
    piped("pipe.npz", whole, a)
    piped("pipe.npz", whole[:-1], refusal="no directory")
    with zipfile.ZipFile("z.npz", "w") as archive:
        archive.writestr("readme.txt", "no array")
        archive.write(file_of(a), "w.npy")
        for n in range(40):
            archive.write(file_of(a), f"a long name {n}.npy")
    refused("z.npz:v", ", ...")
    refused(file_of(a), "expected at most", target="n.npz:" + 600 * "x")


# ---- safetensors -----------------------------------------------------------------------------


def safetensors_bytes(header, data, length=None):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def test_safetensors():
    codes = {"float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64"}
    for dtype, code in codes.items():
        for shape in SHAPES + ((6,), (2, 3, 4)):
            a = array(dtype, shape)
            header = {"__metadata__": {"a": "b"},
                      "first": {"dtype": "I8", "shape": [3], "data_offsets": [0, 3]},
                      "w": {"dtype": code, "shape": list(shape), "data_offsets": [3, 3 + a.nbytes]}}
            open("a.safetensors", "wb").write(safetensors_bytes(header, b"abc" + a.tobytes()))
            same(read("a.safetensors:w"), a)
            convert(file_of(a), "b.safetensors:w")
            same(read("b.safetensors"), a)
    # bfloat16 is the upper half of float32.
    whole = array("float32", (4, 6)).view(np.uint32) & 0xFFFF0000
    header = {"w": {"dtype": "BF16", "shape": [4, 6], "data_offsets": [0, 48]}}
    open("a.safetensors", "wb").write(
        safetensors_bytes(header, (whole >> 16).astype("<u2").tobytes()))
    convert("a.safetensors", "b.safetensors:w")
    data = open("b.safetensors", "rb").read()
    assert data.endswith((whole >> 16).astype("<u2").tobytes()) and b"BF16" in data
    refused("a.safetensors", "npy has no bf16", target="bf16.npy")


def test_safetensors_refused():
    def bad(header, data, text, length=None):
        content = header if isinstance(header, bytes) else safetensors_bytes(header, data, length)
        open("bad.safetensors", "wb").write(content)
        refused("bad.safetensors:w", text)

    def tensor(**changes):
        return {"w": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32], **changes}}

    data = bytes(32)
    bad(b"", data, "8 bytes")
    bad(struct.pack("<Q", 2**63), data, "longer than it")
    bad(tensor(), data, "no JSON object", length=20)
    bad(tensor(dtype="F8_E4M3"), data, "F16, BF16, F32, F64, C64, I8 to I64, U8 to U64, BOOL work")
    bad(tensor(dtype=7), data, "F16, BF16")
    bad(tensor(shape=[2, 3]), data, "do not fit the shape")
    bad(tensor(shape=[-2, -2]), data, "0 to 2^62")
    bad(tensor(shape=[2**40, 2**40]), data, "more than a file can hold")
    bad(tensor(shape=[]), data, "0 dimensions")
    bad(tensor(shape="no"), data, "no shape")
    bad(tensor(data_offsets=[8, 40]), data, "truncated")
    bad(tensor(data_offsets=[-8, 24]), data, "do not fit the shape")
    bad(tensor(data_offsets=[2**62, 2**62 + 32]), data, "truncated")
    bad(tensor(data_offsets=[0]), data, "no data_offsets")
    bad({"__metadata__": {}, "x": tensor()["w"]}, data, "no 'w' in it: it holds x")
    refused("bad.safetensors:__metadata__", "no '__metadata__' in it: it holds x")
    bad(b"\2" + bytes(7) + b"[]", data, "no JSON object")
    bad(b"\4" + bytes(7) + b"{\"a\"", data, "no JSON object")
    bad(tensor(shape=["2", 2]), data, "0 to 2^62")
    bad(tensor(shape=[2**63 - 1, 0]), data, "0 to 2^62")
    bad(tensor(shape=[1] * 100), data, "100 dimensions")
    bad(tensor(data_offsets=["0", 32]), data, "no data_offsets")
    bad(tensor(data_offsets=[0, None]), data, "no data_offsets")
    bad(tensor(data_offsets=[32, 0]), data, "do not fit the shape")
    bad(tensor(data_offsets=[2**63 - 33, 2**63 - 1]), data, "do not fit the shape")
    bad({f"a long name {n}": tensor()["w"] for n in range(40)}, data, ", ...")
    whole = safetensors_bytes(tensor(), data)
    piped("pipe.safetensors", whole, np.zeros((2, 2)))
    piped("pipe.safetensors", whole[:40], refusal="its header is cut off")
    piped("pipe.safetensors", whole[:-1], refusal="truncated")
    piped("pipe.safetensors", struct.pack("<Q", 2**40), refusal="longer than it")
    for length in range(1, 65):  # one of these needs no spaces behind the header
        convert(file_of(np.ones((1, 1))), f"pad.safetensors:{'w' * length}")
        same(read("pad.safetensors"), np.ones((1, 1)))
        os.unlink("pad.safetensors")
    for name in (b"\xff", b"\x80", b"\xc1\x81", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80",
                 b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"a\xc3", b"\xe2\x82"):
        refused(file_of(np.ones((1, 1))), "expected UTF-8", target=b"u.safetensors:" + name)
    for name in ("\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"):
        convert(file_of(np.ones((1, 1))), f"u.safetensors:{name}".encode())
        same(read("u.safetensors"), np.ones((1, 1)))
        os.unlink("u.safetensors")
    refused(file_of(array("complex128", (2, 2))), "safetensors has no c128", target="c.safetensors")
    refused(file_of(np.ones((1, 1))), "expected another than __metadata__",
            target="m.safetensors:__metadata__")
    assert not os.path.exists("m.safetensors")


def test_safetensors_peer():
    from safetensors.numpy import load_file, save_file
    for dtype in ("float16", "float32", "float64", "complex64"):
        for shape in SHAPES + ((6,), (2, 3, 4)):
            a = array(dtype, shape)
            save_file({"w": a, "other": array(dtype, (2,))}, "p.safetensors")
            same(read("p.safetensors:w"), a)
            convert(file_of(a), "q.safetensors:layer.w")
            back = load_file("q.safetensors")
            assert list(back) == ["layer.w"]
            same(back["layer.w"], a)


# ---- HDF5 ------------------------------------------------------------------------------------


def test_hdf5():
    for dtype in ALL:
        for shape in SHAPES + ((6,), (2, 3, 4)):
            a = array(dtype, shape)
            convert(file_of(a), "a.h5:/layer/w")
            same(read("a.h5:/layer/w"), a)
            same(read("a.h5"), a)
    convert(file_of(a), "a.hdf5")
    same(read("a.hdf5:result"), a)
    refused("a.hdf5:w", "it holds result")
    refused(file_of(a), "it holds result", target="a.hdf5:w")
    open("text.h5", "w").write("no HDF5 file")
    refused("text.h5:x", "no HDF5 file")
    refused("none.h5:x", "No such file")
    whole = open("a.h5", "rb").read()
    for cut in (1, 100, len(whole) // 2):
        open("cut.h5", "wb").write(whole[:-cut])
        assert run("multiply", "cut.h5:/layer/w", "-o", "refused.npy").returncode == 2
    # A dataset whose type is of a version that nobody knows yet.
    convert(file_of(np.ones((2, 3))), "newer.h5:w")
    kind = b"\x20\x3f\x00\x08\x00\x00\x00"
    newer = open("newer.h5", "rb").read().replace(b"\x11" + kind, b"\x91" + kind)
    open("newer.h5", "wb").write(newer)
    refused("newer.h5:w", "cannot open the dataset: it is damaged, or written in a newer format")
    refused("newer.h5", "newer format")
    refused("newer.h5:v", "no 'v' in it: it holds w")


def test_hdf5_peer():
    import h5py
    for dtype in ALL:
        for shape in SHAPES + ((6,), (2, 3, 4)):
            a = array(dtype, shape)
            with h5py.File("p.h5", "w", userblock_size=512) as file:
                group = file.create_group("deep/er")
                group["plain"] = a
                group["big"] = a.astype(a.dtype.newbyteorder(">"))
                if a.size > 0:
                    group.create_dataset("chunked", data=a, chunks=True)
                    group.create_dataset("zipped", data=a, compression="gzip", shuffle=True)
            for name in ("plain", "big") + (("chunked", "zipped") if a.size > 0 else ()):
                same(read(f"p.h5:/deep/er/{name}"), a)
            convert(file_of(a), "q.h5:/layer/w")
            with h5py.File("q.h5") as file:
                same(file["layer/w"][...], a)
    with h5py.File("bad.h5", "w") as file:
        file["whole"] = np.zeros((2, 3), "longdouble")
        file["flag"] = np.ones((2, 2), bool)
        file["scalar"] = 1.5
        file["text"] = "text"
        file.create_dataset("huge", shape=(10**7, 10**7), dtype="f8", chunks=(100, 100))
        file.create_dataset("empty", data=h5py.Empty("f8"))
        file.create_dataset("far", shape=(2**62 + 1, 1), dtype="f8", chunks=(100, 1))
        file.create_dataset("outside", data=np.ones((2, 3)), external=[("outside.raw", 0, 48)])
        file["soft"] = h5py.SoftLink("/outside")
        file.create_group("group")
        for name, fields in {"three": [("r", "f4"), ("i", "f4"), ("j", "f4")], "one": [("r", "f4")],
                             "mixed": [("r", "f4"), ("i", "f8")], "whole_pair": [("r", "i4"), ("i", "i4")],
                             "turned": [("r", "<f4"), ("i", ">f4")]}.items():
            file.create_dataset(name, data=np.zeros((2, 2), dtype=fields))
        gap = np.dtype({"names": ["r", "i"], "formats": ["f4", "f4"], "offsets": [0, 8], "itemsize": 12})
        file.create_dataset("gap", data=np.zeros((2, 2), dtype=gap))
    for name in ("three", "one", "mixed", "whole_pair", "turned", "gap"):
        refused(f"bad.h5:{name}", "uint64 work")
    refused("bad.h5:far", "2^62")
    same(read("bad.h5:outside"), np.ones((2, 3)))
    refused("bad.h5:group", "no 'group' in it")
    refused("bad.h5:soft/none", "no 'soft/none' in it")
    refused("bad.h5:whole", "float16, float32, float64, complex64, complex128, int8 to int64, uint8 to uint64 work")
    refused("bad.h5:flag", "uint64 work")
    refused("bad.h5:text", "uint64 work")
    refused("bad.h5:scalar", "0 dimensions")
    refused("bad.h5:empty", "0 dimensions")
    refused("bad.h5:huge", "stored bytes cannot be")
    refused("bad.h5", "it holds empty, far, flag, gap, huge, ")
    with h5py.File("parts.h5", "w") as file:
        for chunks in (None, (1, 2)):
            named = np.dtype([("real", "f8"), ("imag", "f8")]) if chunks else np.dtype([("a", "f4"), ("b", "f4")])
            file.create_dataset(str(named.itemsize), data=np.zeros((3, 4), dtype=named), chunks=chunks)
        with_imaginary = array("complex64", (5, 4))
        file.create_dataset("chunked", data=with_imaginary, chunks=(2, 2))
    same(read("parts.h5:chunked"), with_imaginary)
    assert read("parts.h5:16").dtype == "complex128" and read("parts.h5:8").dtype == "complex64"
    header = {"w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}
    open("half.safetensors", "wb").write(safetensors_bytes(header, bytes(8)))
    refused("half.safetensors", "bf16", target="h.h5")
    refused(file_of(np.ones((2, 2), bool)), "hdf5 has no bool", target="h.h5")


# ---- MATLAB ----------------------------------------------------------------------------------


def test_matlab():
    for dtype in WIDE:
        for shape in SHAPES:
            a = array(dtype, shape)
            convert(file_of(a), "a.mat:w")
            same(read("a.mat"), a)
    convert(file_of(array("float64", (6,))), "a.mat:w")
    assert read("a.mat:w").shape == (1, 6)
    refused(file_of(array("float16", (2, 2))), "matlab has no f16", target="h.mat")
    refused(file_of(array("float64", (2, 2, 2))), "no stack", target="h.mat")
    refused(file_of(array("float64", (2, 2))), "expected a variable", target="h.mat:1w")
    for name in ("a-b", "_a", "a" * 64):
        refused(file_of(array("float64", (2, 2))), "expected a variable", target=f"h.mat:{name}")
    convert(file_of(array("float64", (2, 2))), "n.mat:" + "a" * 63)
    header = {"w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}
    open("half.safetensors", "wb").write(safetensors_bytes(header, bytes(8)))
    refused("half.safetensors", "matlab has no bf16", target="h.mat")
    for shape in ((0, 2**31), (2**31, 0)):
        refused(file_of(np.zeros(shape)), "at most 2 GiB", status=1, target="h.mat")
    refused("a.mat:v", "it holds w")
    assert read("a.mat:").shape == (1, 6)
    for version in (b"\1\0IM", b"\1\1MI", b"\3\0MI", b"\0\1MI", b"\0\1??"):
        open("odd.mat", "wb").write(b" " * 124 + version)
        refused("odd.mat:w", "version 5 or 7.3")
    for version in (b"\0\1IM", b"\1\0MI", b"\0\2IM"):
        open("odd.mat", "wb").write(b" " * 124 + version)
        assert run("multiply", "odd.mat:w", "-o", "refused.npy").returncode == 2
    open("text.mat", "w").write("no MATLAB file")
    refused("text.mat:x", "text.mat")
    # Version 4 begins with sizes and the length of a name, which matio takes 2 GB for here.
    open("old.mat", "wb").write(struct.pack("<5i", 0, 1, 1, 0, 0x7FFD7A7A) + b"w" * 128)
    refused("old.mat:w", "version 5 or 7.3 (in Octave: save -v7)")
    refused("none.mat:x", "No such file")


# Types of numbers in a file of version 5: what they are there, and NumPy's name.
STORED = ((1, "i1"), (2, "u1"), (3, "i2"), (4, "u2"), (5, "i4"), (6, "u4"), (7, "f4"), (9, "f8"), (12, "i8"), (13, "u8"))


def mat_element(order, kind, data, small=False):
    if small and 0 < len(data) <= 4:
        return struct.pack(order + "I", len(data) << 16 | kind) + data.ljust(4, b"\0")
    return struct.pack(order + "2I", kind, len(data)) + data + b"\0" * (-len(data) % 8)


def mat_variable(order, parts, shape, kind, stored=9, name=b"w", flags=0, small=False):
    """A variable by hand: parts are its real and, if there are two, its imaginary elements."""
    inner = mat_element(order, 6, struct.pack(order + "2I", kind | flags | 0x800 * (len(parts) > 1), 0))
    inner += mat_element(order, 5, struct.pack(f"{order}{len(shape)}i", *shape))
    inner += mat_element(order, 1, name, small)
    inner += b"".join(mat_element(order, stored, part, small) for part in parts)
    return struct.pack(order + "2I", 14, len(inner)) + inner


def mat_zipped(order, variable, size=None):
    data = zlib.compress(variable) if isinstance(variable, bytes) else variable[0]
    return struct.pack(order + "2I", 15, len(data) if size is None else size) + data


def mat_file(order, *variables, path="hand.mat"):
    mark = struct.pack(order + "2H", 0x100, 0x4D49)
    open(path, "wb").write(b"by hand".ljust(124) + mark + b"".join(variables))
    return path


def test_matlab_seven():
    """A file of version 7.3, which matio has written."""
    file = os.path.join(FAULTS, "seven.mat")
    same(read(file + ":w"), np.array([[1.0, 2, 3], [4, 5, 6]]))
    same(read(file + ":c"), np.array([[1, 3, 5], [2, 4, 6]], "c8") * (1 - 1j))
    same(read(file + ":none"), np.zeros((0, 3)))
    same(read(file + ":alike"), np.frombuffer(b"\xa5" * 16).reshape(1, 2))
    refused(file + ":pages", "of two dimensions")
    refused(file + ":text", "double and single work")
    refused(file, "it holds alike, c, none, pages, text, w")
    whole = open(file, "rb").read()
    open("cut.mat", "wb").write(whole[:600])
    refused("cut.mat:w", "no 'w' in it")


def test_matlab_by_hand():
    """Numbers of all types in both byte orders, small elements, variables that are none of ours."""
    cases = [(order, kind, dtype, stored, code, shape, small) for order in "<>"
             for kind, dtype in ((6, "float64"), (7, "float32")) for stored, code in STORED
             for shape in ((3, 2), (1, 1), (700, 3), (0, 3)) for small in (False, True)]
    for case in random.permutation(len(cases))[:100 if LONG else 12]:
        order, kind, dtype, stored, code, shape, small = cases[case]
        values = [(random.standard_normal(shape) * 100).astype(code) for _ in "ri"]
        parts = [v.astype(order + code).tobytes("F") for v in values]
        one = mat_variable(order, parts[:1], shape, kind, stored, small=small)
        two = mat_variable(order, parts, shape, kind, stored, b"complex", small=small)
        other = mat_variable(order, parts[:1], shape, 1, stored, b"cell")
        file = mat_file(order, other, struct.pack(order + "2I", 14, 0), mat_zipped(order, one), two)
        try:
            same(read(file + ":w"), values[0].astype(dtype))
            same(read(file + ":complex"), values[0].astype(dtype) + 1j * values[1].astype(dtype))
        except AssertionError as error:
            raise AssertionError(cases[case]) from error
    zeros = mat_variable("<", [bytes(10**6)], (1000, 1000), 6, 2)
    same(read(mat_file("<", mat_zipped("<", zeros)) + ":w"), np.zeros((1000, 1000)))


def test_matlab_damaged():
    """Sizes that a file does not have, right checksums or not, are refused and take no memory."""
    data = array("float64", (4, 3)).tobytes("F")
    whole = mat_variable("<", [data], (4, 3), 6)

    def with_zipped(variable, text):
        return [((variable,), ":w", text), ((mat_zipped("<", variable),), ":w", text)]

    cases = [((whole[:cut],), ":w", "damaged" if cut >= 8 else "no 'w'") for cut in range(len(whole))]
    for cut in range(9, len(whole)):  # the same, but the sizes around it are right
        cases += with_zipped(struct.pack("<2I", 14, cut - 8) + whole[8:cut], "damaged")
    huge = 2**31 - 8
    for shape, kind, parts, text in (((2**15, 2**15), 6, 1, "cannot be the"), ((huge, huge), 6, 1, "more than a file can hold"),
                                     ((huge, 1), 7, 1, "cannot be the"), ((2**13, 2**13), 6, 2, "cannot be the"),
                                     ((-3, 4), 6, 1, "above 2^31 - 1"), ((4, 3, 1), 6, 1, "two dimensions"),
                                     ((4, 3), 5, 1, "full(A)"), ((4, 4), 6, 1, "damaged"), ((4, 3), 6, 0, "damaged"),
                                     ((12,), 6, 1, "damaged"), ((1,) * 33, 6, 1, "damaged")):
        cases += with_zipped(mat_variable("<", [data] * parts, shape, kind), text)
    cases += with_zipped(mat_variable("<", [data], (4, 3), 6, flags=0x200), "double and single work")
    for damaged in (mat_variable("<", [data], (4, 3), 6, 14), mat_variable("<", [data], (4, 3), 6, 99),
                    mat_variable("<", [data[:-1]], (4, 3), 6), mat_variable("<", [data], (4, 3), 6, name=b"w" * 5000),
                    whole[:12] + b"\xff" * 4 + whole[16:]):
        cases += with_zipped(damaged, "damaged")
    cases += [((struct.pack("<2I", 13, 8) + data[:8],), ":w", "damaged"), ((struct.pack("<2I", 1 << 16 | 14, 0),), ":w", "damaged")]
    zipped = zlib.compress(whole)
    for bad in (zipped[:-1] + bytes([zipped[-1] ^ 1]), zipped[:-4], zipped[:-9], b"no deflate", zlib.compress(whole + b"more"),
                zlib.compress(whole[:4] + struct.pack("<I", len(whole)) + whole[8:]), zlib.compress(b"\1" + whole[1:])):
        cases.append(((mat_zipped("<", (bad,)),), ":w", "damaged"))
    cases.append(((mat_zipped("<", whole, size=1000),), ":w", "damaged"))
    named = mat_variable("<", [data], (4, 3), 6, name=b""), mat_variable("<", [data], (4, 3), 6, name=b"b"), whole
    cases += [(named, "", "it holds b, w"), (named, ":c", "no 'c' in it: it holds b, w")]
    cases.append(((whole, b"\0" * 16, whole[:20]), ":c", "damaged"))
    for case in range(len(cases)) if LONG else random.permutation(len(cases))[:25]:
        variables, member, text = cases[case]
        refused(mat_file("<", *variables) + member, text)


def test_matlab_peer():
    import scipy.io
    import scipy.sparse
    for dtype in WIDE:
        for shape in SHAPES:
            a = array(dtype, shape)
            for zipped in (False, True):
                scipy.io.savemat("p.mat", {"w": a, "other": a}, do_compression=zipped)
                same(read("p.mat:w"), a)
            convert(file_of(a), "q.mat:w")
            same(scipy.io.loadmat("q.mat")["w"], a)
    scipy.io.savemat("p.mat", {"whole": np.arange(6).reshape(2, 3), "text": "text",
                               "sparse": scipy.sparse.eye(3).tocsc(), "flag": np.ones((2, 2), bool),
                               "pages": np.zeros((2, 3, 4))})
    refused("p.mat:whole", "double and single work")
    refused("p.mat:text", "double and single work")
    refused("p.mat:flag", "double and single work")
    refused("p.mat:sparse", "full(A)")
    refused("p.mat:pages", "of two dimensions")


# ---- Matrix Market ---------------------------------------------------------------------------


def test_matrix_market():
    for dtype in WIDE:
        wide = "complex128" if dtype.startswith("c") else "float64"
        for shape in SHAPES:
            a = array(dtype, shape)
            convert(file_of(a), "a.mtx")
            same(read("a.mtx"), a.astype(wide))

    def text(lines, wanted):
        open("t.mtx", "w").write(lines)
        same(read("t.mtx"), np.array(wanted))

    head = "%%MatrixMarket matrix "
    text(head + "array real general\n% a comment\n2 2\n1\n2\n3 4\n", [[1.0, 3.0], [2.0, 4.0]])
    text(head + "array integer symmetric\n2 2\n1\n2\n3", [[1.0, 2.0], [2.0, 3.0]])
    text(head + "array real skew-symmetric\n2 2\n5\n", [[0.0, -5.0], [5.0, 0.0]])
    text(head + "array complex hermitian\n2 2\n1 0\n2 3\n4 0\n", [[1, 2 - 3j], [2 + 3j, 4]])
    text(head + "coordinate pattern general\n2 3 2\n1 3\n2 1\n", [[0.0, 0, 1], [1, 0, 0]])
    text(head + "coordinate real symmetric\n2 2 3\n1 1 1\n2 1 2.5e1\n2 1 1\n", [[1.0, 26], [26, 0]])

    def bad(lines, message):
        open("t.mtx", "w").write(lines)
        refused("t.mtx", message)
        done = run("multiply", "t.mtx", "-o", "refused.npy", "--for", "energy")  # as a dense matrix
        assert done.returncode == 2 and done.stderr != "", (lines, done)

    bad("", "line 1: no Matrix Market file")
    bad(head + "array real\n2 2\n", "line 1: general")
    bad(head + "array pattern general\n2 2\n", "line 1: the field")
    bad(head + "array real hermitian\n2 2\n", "line 1: general")
    bad(head + "array real symmetric\n2 3\n", "not square")
    bad(head + "array real general\n", "sizes were expected")
    bad(head + "array real general\n2 2\n1\n2\nx\n4\n", "line 5: a number")
    bad(head + "array real general\n2 2\n1\n2\n3\n", "it ends before")
    bad(head + "array real general\n1000000000 1000000000\n1\n", "too short for so many")
    bad(head + "array real general\n4000000000000000000 9\n1\n", "more than a file can hold")
    bad(head + "coordinate real general\n2 2 9000000000\n1 1 1\n", "too short for so many")
    bad(head + "coordinate real general\n2 2 1\n3 1 1\n", "none that is too large")
    bad(head + "coordinate real general\n2 2 -1\n", "none that is too large")
    bad(head + "coordinate real general\n2 99999999999999999999 1\n", "none that is too large")
    bad(head + "coordinate real general\n2 2 1x\n", "none that is too large")
    bad(head + "array real general\n1 1\n" + 5000 * "1" + "\n", "a word is too long")
    bad(head + "array " + 5000 * "real", "a word is too long")
    bad(head + "array real general\n1 1\n\0\n", "text was expected")
    bad(head + "array real general\n1 \0 1\n", "text was expected")
    bad(head + "table real general\n1 1\n1\n", "the format")
    bad(head + "array complex general\n1 1\n1\n", "it ends before")
    text(head + "array double general\n1 1\n1.5", [[1.5]])
    text(head + "coordinate complex general\n1 2 3\n1 1 1 2\n1 1 3 4\n1 2 0 1\n", [[4 + 6j, 1j]])
    text(head + "coordinate complex hermitian\n2 2 2\n1 1 1 0\n2 1 0 1\n", [[1, complex(0, -1)], [1j, 0]])
    text(head + "coordinate real skew-symmetric\n2 2 1\n2 1 3\n", [[0.0, -3], [3, 0]])
    text(head + "coordinate real general\n0 2 0\n", np.zeros((0, 2)))
    bad(head + "coordinate real general\n0 2 1\n1 1 1\n", "has no entries")
    refused(file_of(array("float16", (2, 2))), "no f16", target="t.mtx")
    bad(head + "coordinate real general\n2 2 1\n0 1 1\n", "count from 1")
    bad(head + "coordinate real general\n100000000 100000000 1\n1 1 1\n", "out of all proportion")
    bad(head + "coordinate real general\n4000000000 2 1\n1 1 1\n", "2147483647")
    refused(file_of(array("float64", (2, 2, 2))), "no stacks", target="t.mtx")


def test_matrix_market_peer():
    import scipy.io
    import scipy.sparse
    for dtype in WIDE:
        wide = "complex128" if dtype.startswith("c") else "float64"
        for shape in SHAPES:
            if 0 in shape:  # SciPy's reader divides by it
                continue
            a = np.nan_to_num(array(dtype, shape), posinf=1, neginf=1) + 0  # SciPy drops the sign of 0
            scipy.io.mmwrite("p.mtx", a.astype(wide), precision=17)
            same(read("p.mtx"), a.astype(wide))
            convert(file_of(a), "q.mtx")
            same(np.asarray(scipy.io.mmread("q.mtx")), a.astype(wide))
    sparse = scipy.sparse.random(40, 30, 0.1, random_state=SEED)
    scipy.io.mmwrite("s.mtx", sparse, precision=17)
    same(read("s.mtx"), sparse.toarray())


# ---- sparse matrices -------------------------------------------------------------------------


def sparse_members(dense, by="csr", index="int32", text="S3"):
    """What scipy.sparse.save_npz() writes for a matrix."""
    lines = dense.T if by == "csc" else dense
    counts = [np.count_nonzero(line) for line in lines]
    return {"indices": np.nonzero(lines)[1].astype(index), "indptr": np.cumsum([0, *counts]).astype(index),
            "format": np.array(by, text), "shape": np.array(dense.shape), "data": lines[lines != 0]}


def test_sparse():
    for dtype in WIDE:
        a = np.nan_to_num(array(dtype, (6, 9)), neginf=1) * (random.random((6, 9)) < 0.4)
        a = a.astype(dtype)
        for by, index, text in (("csr", "int32", "S3"), ("csc", "int32", "S3"), ("csr", "int64", "U3"),
                                ("csc", "int64", "U3")):
            for save in (np.savez, np.savez_compressed):
                save("a.npz", **sparse_members(a, by, index, text))
                same(read("a.npz") + 0, a + 0)
        convert("a.npz", "b.npz")
        with np.load("b.npz") as written:
            assert written["format"] == b"csr", written["format"]
            same(written["data"], a[a != 0])
        same(read("b.npz") + 0, a + 0)
        convert("a.npz", "b.mtx")
        same(read("b.mtx") + 0, (a + 0).astype("complex128" if a.dtype.kind == "c" else "float64"))
        done = run("multiply", "a.npz:T", file_of(a), "a.npz:H", "-o", "dense.npy", "--check")
        assert done.returncode == 0, done.stderr
    for shape in ((0, 4), (4, 0), (1, 1)):
        np.savez("e.npz", **sparse_members(np.zeros(shape)))
        same(read("e.npz"), np.zeros(shape))
        refused(file_of(np.zeros((2, 2))), "would be replaced", target="e.npz:w")
    refused("e.npz:none", "no 'none' in it: it holds indices, indptr, format, shape, data")
    assert run("multiply", "e.npz", "-o", "r.npz:w", "--on", "ref").returncode == 0


def test_sparse_refused():
    a = np.array([[0.0, 1, 2], [3, 0, 0]])

    def bad(text, **changes):
        members = {**sparse_members(a, changes.pop("by", "csr")), **changes}
        np.savez("s.npz", **{name: what for name, what in members.items() if what is not None})
        refused("s.npz", text)

    bad("SciPy's format coo: csr and csc work", format=np.array(b"coo"))
    # As SciPy writes it, without indptr.
    bad("SciPy's format coo: csr and csc work", format=np.array(b"coo"), indptr=None, indices=None,
        row=np.array([0, 0, 1]), col=np.array([1, 2, 0]))
    np.savez("s.npz", format=a, shape=a, data=a)  # which are arrays, and no sparse matrix
    refused("s.npz", "it holds format, shape, data: say which, as in s.npz:format")
    bad("SciPy's format bsr-and: csr", format=np.array(b"bsr-and-more")[()])
    bad("SciPy's format : csr", format=np.array(b""))
    for name in ("indices", "indptr", "shape"):
        members = sparse_members(a)
        bad(f"its {name}", **{name: members[name].astype("float64")})
        bad(f"its {name}", **{name: members[name].astype("int16")})
        bad(f"its {name}", **{name: members[name][None]})
    bad("its shape", shape=np.array([2, 3, 1]))
    bad("its data", data=np.ones((3, 1)))
    bad("its indptr", indptr=np.zeros(0, "int32"))
    bad("different lengths", data=np.ones(4))
    for dtype in ("float16", "int64", "uint8", "bool"):
        bad("f32, f64, c64 and c128 work", data=np.ones(3, dtype))
    bad("str", data=np.array(["a", "b", "c"]))
    for shape in ((-1, 3), (2, -1), (3, 3), (2**31, 3), (2, 2**31)):
        bad("does not fit its shape", shape=np.array(shape))
    bad("do not fit each other", indptr=np.array([1, 2, 3]))
    bad("do not fit each other", indptr=np.array([0, 4, 3]))
    bad("do not fit each other", indptr=np.array([0, 2, 2]))
    bad("do not fit each other", indices=np.array([0, 3, 1]))
    bad("do not fit each other", indices=np.array([0, -1, 1]))
    for by, shape in (("csr", (2, 2**31 - 1)), ("csc", (2**31 - 1, 3))):
        bad("out of all proportion", by=by, shape=np.array(shape))
    # What sparse chains lack is done with dense matrices.
    lines = 100000
    empty = {"indptr": np.zeros(lines + 1, int), "indices": np.zeros(0, int), "data": np.zeros(0)}
    np.savez("s.npz", **{**sparse_members(a), **empty, "shape": np.array([lines, 1000000])})
    done = run("multiply", "s.npz", "-o", "refused.npy", "--for", "energy")
    assert done.returncode == 2 and "which as a dense one exceeds" in done.stderr, done
    np.savez("s.npz", **sparse_members(a))
    done = run("multiply", "s.npz", "-o", "dense.npy", "--for", "energy", "--no-sync")
    assert done.returncode == 0, done.stderr
    same(np.load("dense.npy"), a)
    np.savez("s.npz", **sparse_members(a))
    whole = open("s.npz", "rb").read()
    for cut in range(1, len(whole), 97):
        open("cut.npz", "wb").write(whole[:-cut])
        assert run("multiply", "cut.npz", "-o", "refused.npy").returncode == 2
    np.savez_compressed("s.npz", **sparse_members(a))
    whole = open("s.npz", "rb").read()
    for name in sparse_members(a):
        at = whole.find(f"{name}.npy".encode()) + 60
        open("sum.npz", "wb").write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        refused("sum.npz", "sum.npz")


# ---- chains of them --------------------------------------------------------------------------


def test_chain():
    a, b, c = array("float64", (30, 4)), array("float64", (30, 5)), array("float64", (5, 5))
    a, b, c = (np.nan_to_num(x, neginf=1) for x in (a, b, c))
    np.savez("w.npz", a=a, T=b)
    convert(file_of(c), "c.mtx")
    done = run("multiply", "w.npz:a:T", "w.npz:T:N", "c.mtx^3", "-o", "r.npz:p", "--check")
    assert done.returncode == 0, done.stderr
    with np.load("r.npz") as result:
        wanted = a.T @ b @ c @ c @ c
        assert np.abs(result["p"] - wanted).max() <= 1e-12 * np.abs(wanted).max()
    told = run("plan", "w.npz:a:T", "w.npz:T:N", "c.mtx^3").stdout
    assert "f64:4x30x5x5^3:TNN" in told, told


TESTS = (
    ("npz", None, test_npz), ("npz", None, test_npz_refused), ("npz", None, test_npz_by_hand),
    ("safetensors", None, test_safetensors), ("safetensors", None, test_safetensors_refused),
    ("safetensors", "safetensors", test_safetensors_peer),
    ("hdf5", None, test_hdf5), ("hdf5", "h5py", test_hdf5_peer),
    ("matlab", None, test_matlab), ("matlab", None, test_matlab_seven), ("matlab", None, test_matlab_by_hand),
    ("matlab", None, test_matlab_damaged), ("matlab", "scipy", test_matlab_peer),
    ("matrix-market", None, test_matrix_market), ("matrix-market", "scipy", test_matrix_market_peer),
    ("npz", None, test_sparse), ("npz", None, test_sparse_refused),
    ("npz", None, test_chain),
)


def main():
    formats = here()
    missing = failed = 0
    print(f"MMCHAIN_TEST_SEED={SEED}")
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        for number, (name, peer, test) in enumerate(TESTS):
            if name not in formats:
                print(f"left out {test.__name__}: built without {name}")
                missing += 1
                continue
            if peer is not None:
                try:
                    __import__(peer)
                except ImportError:
                    print(f"left out {test.__name__}: no {peer} here")
                    missing += 1
                    continue
            os.mkdir(str(number))
            os.chdir(str(number))
            try:
                test()
                print(f"ok       {test.__name__}")
            except Exception as error:
                failed += 1
                print(f"FAILED   {test.__name__}: {type(error).__name__}: {error}")
            os.chdir(directory)
        os.chdir("/")
    return 1 if failed or (missing and "--all" in sys.argv) else 0


if __name__ == "__main__":
    sys.exit(main())
