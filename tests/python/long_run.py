#!/usr/bin/env python3
"""long_run.py MMCHAIN MINUTES [SEED]: what a machine does to mmchain in a day, in less.

One process multiplies chains of new shapes and of old ones, plans, tunes, exports and imports, all with
one wisdom store. Meanwhile the command does the same with the same store and the same files, and is
killed at any moment. Then and now:

- every product is compared with NumPy's;
- what the command writes is whole: the old file or the new;
- the store can be read, is not set aside, and has every entry that an import which ended has put there;
- the memory of the process, once warm, does not grow: the slope of a line through its resident bytes, in a run
  of more than ten minutes.

Three things grow to a bound in any process and are brought there first, or drawn from so few that they soon are: the code that
LIBXSMM writes (8192 products), the plans that the package keeps (512), and what is tuned, which lies in memory as in the store.

Prints a line a minute. Exit status: 1 when something was wrong.
"""

import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

mmchain_command, minutes = os.path.abspath(sys.argv[1]), float(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 20261123
folder = tempfile.mkdtemp()
store = os.path.join(folder, "wisdom.db")
os.environ["MMCHAIN_WISDOM"] = store

import mmchain  # noqa: E402 - it reads the environment

libc = ctypes.CDLL(None)
draw = random.Random(seed)
rng = np.random.default_rng(seed)
counts = dict.fromkeys(["products", "plans", "tunes", "imports", "commands", "killed"], 0)
put = set()  # sizes m of the entries that imports which ended have put into the store
MOST_SLOPE = 64 << 10  # bytes a minute: a byte or two a product
WARM = 10  # minutes, in which some 0.6 MB are taken once
CODES = 10000  # more products than LIBXSMM writes code for
sizes = [tuple(draw.randint(1, 64) for _ in range(3)) for _ in range(100)]  # those that are tuned
IMPORTS = 500  # texts that are imported


def resident_bytes():
    """What is resident when the allocator has given back what it keeps for later."""
    libc.malloc_trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def expect(holds, *what):
    if not holds:
        raise SystemExit(" ".join(["FAIL:", *map(str, what)]))


def multiply():
    dims = [draw.randint(1, 60) for _ in range(draw.randint(3, 7))]
    arrays = [rng.standard_normal(shape) for shape in zip(dims, dims[1:])]
    result = mmchain.multi_dot(arrays, objective=draw.choice(["time", "flops", "energy"]))
    expected = np.linalg.multi_dot(arrays) if len(arrays) > 2 else arrays[0] @ arrays[1]
    magnitude = np.linalg.multi_dot([abs(a) for a in arrays]) if len(arrays) > 2 else abs(arrays[0]) @ abs(arrays[1])
    error = np.abs(result - expected)
    expect((error <= 1e-13 * sum(dims) * (magnitude + 1e-300)).all(), "a wrong product of", dims)
    counts["products"] += 1


def plan():
    dims = [draw.randint(1, 200) for _ in range(draw.randint(3, 20))]
    made = mmchain.plan("x".join(map(str, dims)), objective=draw.choice(["time", "traffic"]))
    expect(made.explain("json").startswith("{") and made.multiplications > 0, "a plan of", dims)
    counts["plans"] += 1


def tune():
    mmchain.tune(set=[draw.choice(sizes)], budget=0.05)
    counts["tunes"] += 1


def fill_code():
    """Multiplies batches, for which code is always written, of so many shapes that no more is written."""
    stack = np.ones((40, 64, 64))
    shapes = set()
    while len(shapes) < CODES:
        m, k, n = shape = tuple(draw.randint(1, 64) for _ in range(3))
        if shape not in shapes:
            mmchain.multi_dot([stack[:, :m, :k], stack[:, :k, :n]], objective="flops")
            shapes.add(shape)
    mmchain.clear_cache()


def wisdom_text(first, count):
    lines = ["mmchain wisdom 1", 'fingerprint "ref" "m" "" "" "0.1.0" "f32" "native"']
    for m in range(first, first + count):
        lines.append(f'product {m} 2 3 N N time "n:1,2" {m} 0 {2 * m} - - - "measured" 1')
    return "\n".join([*lines, f"end {count}", ""])


def command(arguments, kill):
    process = subprocess.Popen(
        [mmchain_command, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if kill:
        time.sleep(draw.random() * 0.05)
        process.send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
    text, error = process.communicate()
    counts["commands"] += 1
    counts["killed"] += process.returncode < 0 or process.returncode > 128
    expect(kill or process.returncode == 0, arguments, process.returncode, error.decode())
    return process.returncode, text.decode()


def use_command():
    kill = draw.random() < 0.5
    if draw.random() < 0.5:
        first = draw.randrange(IMPORTS) * 10 + 1
        with open(os.path.join(folder, "text"), "w") as file:
            file.write(wisdom_text(first, 10))
        status, _ = command(["wisdom", "import", "text"], kill)
        if status == 0:
            put.update(range(first, first + 10))
        counts["imports"] += status == 0
    else:
        output = os.path.join(folder, "R.npy")
        a, b = rng.standard_normal((40, 30)), rng.standard_normal((30, 50))
        np.save(os.path.join(folder, "A.npy"), a)
        np.save(os.path.join(folder, "B.npy"), b)
        before = np.load(output) if os.path.exists(output) else None
        status, _ = command(["multiply", "A.npy", "B.npy", "-o", "R.npy"], kill)
        now = np.load(output) if os.path.exists(output) else None
        if now is None or (before is not None and np.array_equal(now, before)):
            expect(status != 0, "the old result")
        else:
            expect(np.allclose(now, a @ b), "neither the old result nor the new")


def check_store():
    _, text = command(["wisdom", "export"], False)
    found = {int(line.split()[1]) for line in text.splitlines() if line.endswith('"measured" 1')}
    expect(put <= found, "entries were lost:", len(put - found))
    expect(not [name for name in os.listdir(folder) if "corrupt" in name], "the store was set aside")


def slope(samples):
    """Bytes a minute, by least squares, of the second half and not of the first ten minutes, which warm up;
    NaN for a run that is too short to say."""
    late = [sample for sample in samples[len(samples) // 2 :] if sample[0] >= 60 * WARM]
    if len(late) < 4:
        return float("nan")
    times, sizes = np.array(late, float).T
    return np.polyfit(times / 60, sizes, 1)[0]


def main():
    print(f"seed {seed}, {folder}", flush=True)
    fill_code()
    for size in sizes:
        mmchain.tune(set=[size], budget=0.05)
    began, told, samples = time.monotonic(), 0, []
    while (now := time.monotonic() - began) < 60 * minutes:
        for _ in range(50):
            multiply()
        plan()
        use_command()
        if draw.random() < 0.2:
            tune()
        if not samples or now - samples[-1][0] >= 5:
            samples.append((now, resident_bytes()))
        if now - told >= 60:
            told = now
            check_store()
            print(f"{now / 60:.0f} min, {samples[-1][1] / 2**20:.2f} MB, {counts}", flush=True)
    check_store()
    grown = slope(samples)
    print(f"{counts}; {grown / 1024:.1f} KiB a minute, at the end {samples[-1][1] >> 20} MB")
    left = [name for name in os.listdir(folder) if name.startswith(".mmchain")]
    print(f"temporary files of killed commands: {len(left)}")
    return 1 if grown > MOST_SLOPE else 0


if __name__ == "__main__":
    sys.exit(main())
