#!/usr/bin/env python3
"""test_disk.py MMCHAIN TRACE_DISK FILE_WRITE WITHOUT_UNNAMED: disks that fail, and power failures.

Whoever writes a file or the wisdom store leaves the old content or the new, never anything between:

- when any one of its calls of the system fails (trace_disk fail), each of them in turn;
- when the power fails at any point. What was written and not synced is lost or not, sector by
  sector, as chance has it; so are names that were given and not synced, the last ones first.

Of a file, nothing is kept but what fsync() of it, and for its name fsync() of its directory, has put
on the disk. For SQLite's store, fsync() of a file keeps the names given before it too, as on ext4,
XFS and btrfs: SQLite does not sync its directory after it deletes a journal.

MMCHAIN_TEST_LONG=1 makes 1000 power failures, else 120 are made; MMCHAIN_TEST_SEED=N draws others.
Exit status: 0, 1 on a failure, 77 where no process can be traced.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

SECTOR = 512
EIO, ENOSPC = 5, 28
THOROUGH = "MMCHAIN_TEST_LONG" in os.environ
SEED = int(os.environ.get("MMCHAIN_TEST_SEED", "1"))
CRASHES = 1000 if THOROUGH else 120

mmchain, tracer, file_write, without_unnamed = (os.path.abspath(path) for path in sys.argv[1:5])
environment = dict(
    os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MMCHAIN_WISDOM="", LD_LIBRARY_PATH=""
)
del environment["LD_LIBRARY_PATH"]
# Leaks cannot be looked for in a process that is traced.
environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
work = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
log_path = os.path.join(work, "log")


class Failure(Exception):
    pass


def expect(holds, *what):
    if not holds:
        raise Failure(" ".join(str(w) for w in what))


def run(folder, command, trace=()):
    """Runs a command in a folder, with the store that lies there; returns its exit status."""
    done = subprocess.run(
        [*trace, *command],
        cwd=folder,
        env=dict(environment, MMCHAIN_WISDOM=os.path.join(folder, "wisdom.db")),
        capture_output=True,
    )
    expect(done.returncode in (0, 1, 2, 77), command, done.returncode, done.stderr)
    if done.returncode == 77:
        print("no process can be traced here:", done.stderr.decode().strip())
        shutil.rmtree(work)
        sys.exit(77)
    return done.returncode, done.stdout, done.stderr


def read_log():
    with open(log_path) as log:
        return [line.rstrip("\n").split(" ") for line in log]


def folder_of(name, files):
    """A new folder with these files."""
    path = os.path.join(work, name)
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    for file, content in files.items():
        with open(os.path.join(path, file), "wb") as out:
            out.write(content)
    return path


def content_of(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def files_in(folder):
    return {name: content_of(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


# ---- a disk that forgets ------------------------------------------------------------------------


class File:
    def __init__(self, content=b""):
        self.synced, self.pending = content, []


def changed(content, change):
    """content after a change: ("write", offset, bytes) or ("truncate", size)."""
    if change[0] == "truncate":
        return content[: change[1]].ljust(change[1], b"\0")
    _, offset, data = change
    content = content.ljust(offset, b"\0")
    return content[:offset] + data + content[offset + len(data) :]


def sectors(change):
    """A write in pieces, of which each reaches the disk or not."""
    if change[0] != "write":
        return [change]
    _, offset, data = change
    pieces, at = [], 0
    while at < len(data):
        end = min(len(data), at + SECTOR - (offset + at) % SECTOR)
        pieces.append(("write", offset + at, data[at:end]))
        at = end
    return pieces


class Disk:
    """What was written to a folder, by a log of trace_disk, and what of it a power failure leaves."""

    def __init__(self, folder, ordered):
        self.ordered = ordered  # fsync of any file keeps all names that were given before
        self.files, self.names, self.pending = {}, {}, []
        for name, content in files_in(folder).items():
            number = os.stat(os.path.join(folder, name)).st_ino
            self.files[number], self.names[name] = File(content), number

    def do(self, line):
        verb, arguments = line[0], line[1:]
        if verb in ("unnamed", "create"):
            self.files[int(arguments[0])] = File()
        if verb in ("create", "link"):
            self.pending.append(("set", arguments[1], int(arguments[0])))
        elif verb in ("rename", "unlink"):
            self.pending.append((verb, *arguments))
        elif verb == "write":
            data = bytes.fromhex(arguments[2])
            self.files[int(arguments[0])].pending.append(("write", int(arguments[1]), data))
        elif verb in ("truncate", "empty"):
            size = int(arguments[1]) if verb == "truncate" else 0
            self.files[int(arguments[0])].pending.append(("truncate", size))
        elif verb == "sync":
            file = self.files[int(arguments[0])]
            for change in file.pending:
                file.synced = changed(file.synced, change)
            file.pending = []
        if verb == "syncdir" or (verb == "sync" and self.ordered):
            self.names = self.names_after(self.pending)
            self.pending = []
        expect(verb in VERBS, "unknown line", line)

    def names_after(self, changes):
        names = dict(self.names)
        for change in changes:
            if change[0] == "set":
                names[change[1]] = change[2]
            elif change[0] == "unlink":
                names.pop(change[1], None)
            elif change[1] in names:
                names[change[2]] = names.pop(change[1])
        return names

    def after_power_failure(self, draw):
        """What is found afterwards: {name: content}. Nothing of what was not synced is kept, all of it,
        or what chance keeps."""
        keep = draw.choice(["nothing", "all", "some", "some"])
        share = {"nothing": 0, "all": 1, "some": draw.random()}[keep]
        count = {"nothing": 0, "all": len(self.pending)}.get(keep, draw.randint(0, len(self.pending)))
        found = {}
        for name, number in self.names_after(self.pending[:count]).items():
            content = self.files[number].synced
            for change in self.files[number].pending:
                for piece in sectors(change):
                    if draw.random() < share:
                        content = changed(content, piece)
            found[name] = content
        return found


VERBS = {"unnamed", "create", "link", "rename", "unlink", "write", "truncate", "empty", "sync", "syncdir"}


# ---- files --------------------------------------------------------------------------------------


def npy(rows, cols, first):
    """An .npy file of numbers that count from first."""
    header = repr({"descr": "<f8", "fortran_order": False, "shape": (rows, cols)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    numbers = struct.pack(f"<{rows * cols}d", *range(first, first + rows * cols))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + numbers


MULTIPLY = [mmchain, "multiply", "A.npy", "B.npy", "-o", "R.npy"]
WRITERS = {
    "multiply": MULTIPLY,
    "multiply, no unnamed files": [without_unnamed, *MULTIPLY],
    "order": [mmchain, "order", "--dims", "dims", "-o", "R.bin"],
    "export": [mmchain, "wisdom", "export", "-o", "R.txt"],
    "mmc_file_write": [file_write, "R.npy", "7"],
    "mmc_file_write, no unnamed files": [without_unnamed, file_write, "R.npy", "7"],
}
# The other entrances of the command, each with an output of its own.
if THOROUGH:
    WRITERS |= {
        "multiply --semiring": [*MULTIPLY, "--semiring", "log"],
        "multiply --scaled": [*MULTIPLY, "--scaled", "E.npy"],
        "multiply --mod": [mmchain, "multiply", "I.npy^9", "-o", "R.npy", "--mod", "97"],
        "multiply --plan": [mmchain, "multiply", "--plan", "plan", "I.npy", "I.npy", "-o", "R.npy"],
        "multiply, structure": [mmchain, "multiply", "S.npy:diagonal:inv", "S.npy", "-o", "R.npy"],
        "multiply, sparse": [mmchain, "multiply", "S.mtx", "S.mtx", "-o", "R.npy"],
        "multiply, .npz": [mmchain, "multiply", "A.npy", "B.npy", "-o", "R.npz"],
        "multiply, .safetensors": [mmchain, "multiply", "A.npy", "B.npy", "-o", "R.safetensors"],
        "scan": [mmchain, "scan", "T.npy", "-o", "R.npy"],
        "scan --scaled": [mmchain, "scan", "T.npy", "-o", "R.npy", "--scaled", "E.npy"],
        "plan --svg": [mmchain, "plan", "30x35x15x5x10", "--svg", "R.svg"],
        "report": [mmchain, "report", "30x35x15x5x10", "-o", "R.html"],
    }
FACTORS = {
    "A.npy": npy(90, 20, 1),
    "B.npy": npy(20, 70, -5),
    "dims": " ".join(str(2 + i * i % 97) for i in range(700)).encode(),
    "I.npy": npy(3, 3, 1).replace(b"<f8", b"<i8"),
    "S.npy": npy(1, 1, 3),
    "T.npy": npy(12, 9, 1).replace(b"(12, 9)} ", b"(12,3,3)}"),
    "S.mtx": b"%%MatrixMarket matrix coordinate real general\n9 9 3\n1 2 5\n2 9 3\n9 1 2\n",
}


def outputs_of(command):
    return [word for word in command if word[:2] in ("R.", "E.")]


def new_content(command, files):
    folder = folder_of("new", files)
    status, _, error = run(folder, command)
    expect(status == 0, command, error)
    return {name: content_of(os.path.join(folder, name)) for name in outputs_of(command)}


def each_call_fails(name, command, before, error):
    """Fails one call after the other; the result is old or new, and the exit status says which."""
    files = dict(FACTORS) if before is None else dict(FACTORS, **dict.fromkeys(outputs_of(command), before))
    new, failed = new_content(command, files), []
    for number in range(1, 10000):
        folder = folder_of("fail", files)
        open(log_path, "w").close()
        trace = (tracer, "fail", str(number), str(error), log_path, folder)
        status, _, said = run(folder, command, trace)
        found = {output: content_of(os.path.join(folder, output)) for output in new}
        call = "".join(read_log()[0]) if read_log() else None
        where = f"{name}: call {number}, {call}: exit status {status}: {said.decode().strip()}:"
        for output in new:
            expect(found[output] in (before, new[output]), where, output, "is neither old nor new")
        expect(status != 0 or found == new, where, "the old content")
        expect(status == 0 or said.count(b"\n") == 1, where, "expected one line")
        left = [file for file in os.listdir(folder) if file.startswith(".mmchain")]
        expect(left == [], where, "left behind", left)
        if call is None:
            expect(status == 0, where, "failed without a failure")
            return failed
        failed.append(call)
    raise Failure(f"{name}: no end")


def power_fails(name, command, before, count, draw):
    """Returns how often the content was old, new and neither; neither is an error but for --no-sync."""
    files = dict(FACTORS) if before is None else dict(FACTORS, **dict.fromkeys(outputs_of(command), before))
    new, folder = new_content(command, files), folder_of("power", files)
    disk = Disk(folder, ordered=False)
    open(log_path, "w").close()
    status, _, error = run(folder, command, (tracer, "record", log_path, folder))
    expect(status == 0, name, error)
    lines, seen = read_log(), {"old": 0, "new": 0, "neither": 0}
    expect(len(lines) > 2, name, "nothing was logged")
    for at in range(len(lines) + 1):
        share = count * (at + 1) // (len(lines) + 1) - count * at // (len(lines) + 1)
        for _ in range(share):
            after = disk.after_power_failure(draw)
            found = {output: after.get(output) for output in new}
            whole = all(found[output] in (before, new[output]) for output in new)
            kind = "new" if found == new else "old" if whole else "neither"
            seen[kind] += 1
            if kind != "new" and at == len(lines) and "--no-sync" not in command:
                raise Failure(f"{name}: {kind} content although the command had ended")
            if kind == "neither" and "--no-sync" not in command:
                raise Failure(f"{name}: neither old nor new after line {at}, {lines[at - 1][:2]}")
        if at < len(lines):
            disk.do(lines[at])
    return seen


# ---- the store ----------------------------------------------------------------------------------


def wisdom_text(first, count):
    lines = ["mmchain wisdom 1", 'fingerprint "ref" "m" "" "" "0.1.0" "f32" "native"']
    for m in range(first, first + count):
        lines.append(f'product {m} 2 3 N N time "n:1,2" {m} 0 {2 * m} - - - "measured" 1')
    return "\n".join([*lines, f"end {count}", ""]).encode()


TEXTS = {"one": wisdom_text(1, 200), "two": wisdom_text(201, 150), "three": wisdom_text(351, 3)}
IMPORTS = [[mmchain, "wisdom", "import", name] for name in TEXTS]


def export(folder, *where, may_be_aside=False):
    status, text, error = run(folder, [mmchain, "wisdom", "export"])
    expect(status == 0, *where, "cannot be exported:", error)
    if may_be_aside:
        return text
    aside = [name for name in os.listdir(folder) if "corrupt" in name]
    expect(aside == [], *where, "set aside", aside)
    return text


def stores(folder):
    """The text of the store before and after each import, and its files then."""
    texts, files = [export(folder)], [files_in(folder)]
    for command in IMPORTS:
        expect(run(folder, command)[0] == 0, command)
        texts.append(export(folder))
        files.append(files_in(folder))
    expect(len(set(texts)) == len(texts), "an import changes nothing")
    return texts, files


def each_call_of_the_store_fails(texts, files, step, error, stride):
    """Import number step, with each of its calls failing: all of it is there, or nothing."""
    failed = []
    for number in range(1, 100000, stride):
        folder = folder_of("fail", files[step])
        open(log_path, "w").close()
        trace = (tracer, "fail", str(number), str(error), log_path, folder)
        status, _, said = run(folder, IMPORTS[step], trace)
        call = "".join(read_log()[0]) if read_log() else None
        where = f"import {step + 1}: call {number}, {call}: exit status {status}: {said.decode().strip()}:"
        # A page that cannot be read is taken for a bad one: what can be read goes to a new store.
        text = export(folder, where, may_be_aside=call == "read")
        expect(text in texts[step : step + 2], where, "something between")
        expect(status != 0 or text == texts[step + 1], where, "nothing was imported")
        if call is None:
            expect(status == 0, where, "failed without a failure")
            return failed
        failed.append(call)
    raise Failure("no end")


def power_fails_under_the_store(texts, count, draw, ordered=True):
    """All imports, one process after the other; then the store is whole, with as many of them as had
    ended, or one more."""
    folder = folder_of("power", TEXTS)
    disk = Disk(folder, ordered)
    lines, ended = [], []
    for command in IMPORTS:
        open(log_path, "w").close()
        expect(run(folder, command, (tracer, "record", log_path, folder))[0] == 0, command)
        lines += read_log()
        ended.append(len(lines))
    seen = [0] * len(texts)
    for at in range(len(lines) + 1):
        for _ in range(count * (at + 1) // (len(lines) + 1) - count * at // (len(lines) + 1)):
            found = disk.after_power_failure(draw)
            where = f"power failure after line {at} of {len(lines)}, {lines[at - 1][:2]}:"
            text = export(folder_of("found", found), where)
            expect(text in texts, where, "something between")
            least = sum(end <= at for end in ended)
            expect(texts.index(text) in (least, least + 1), where, "imports", texts.index(text))
            seen[texts.index(text)] += 1
        if at < len(lines):
            disk.do(lines[at])
    return len(lines), seen


def main():
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    FACTORS["plan"] = run(folder_of("plan", FACTORS), [mmchain, "plan", "I.npy", "I.npy", "--json"])[1]
    errors = (EIO, ENOSPC) if THOROUGH else (EIO,)
    befores = (b"the old content", None) if THOROUGH else (b"the old content",)
    for name, command in WRITERS.items():
        for before in befores:
            for error in errors:
                failed = each_call_fails(name, command, before, error)
            print(f"{name}: {len(failed)} calls failed, one by one: {', '.join(sorted(set(failed)))}")
    made = 0
    for name, command in WRITERS.items():
        for before in befores:
            count = max(20, CRASHES // 4 // len(WRITERS))
            seen = power_fails(name, command, before, count, draw)
            made += sum(seen.values())
            print(f"{name}: {count} power failures: {seen}")
    # What is not synced is seen to be lost: without that, nothing above would mean anything.
    seen = power_fails("multiply --no-sync", [*MULTIPLY, "--no-sync"], b"old", 200, draw)
    expect(seen["neither"] > 0, "--no-sync loses nothing")
    print(f"multiply --no-sync: 200 power failures: {seen}")
    texts, files = stores(folder_of("store", TEXTS))
    for step in range(len(IMPORTS)):
        for error in errors:
            stride = 1 if THOROUGH else 13
            failed = each_call_of_the_store_fails(texts, files, step, error, stride)
            print(f"import {step + 1}: {len(failed)} calls failed: {', '.join(sorted(set(failed)))}")
    lines, seen = power_fails_under_the_store(texts, max(CRASHES - made, 60), draw)
    print(f"imports: {lines} changes, {sum(seen)} power failures; imports that were there: {seen}")
    print(f"{made + sum(seen)} power failures, all of them with the old content or the new")


try:
    main()
except Failure as failure:
    print("FAIL", failure)
    sys.exit(1)
finally:
    shutil.rmtree(work, ignore_errors=True)
