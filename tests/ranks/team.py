"""mmchain.Team on the ranks of mpirun: layouts, dtypes, errors; with mpi4py's communicators where it
is there, and without."""

import sys

import numpy as np

import mmchain

try:
    from mpi4py import MPI
except ImportError:
    MPI = None

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 7
random = np.random.default_rng(seed)  # the same on all ranks
comm = None
if MPI is not None:
    comm = MPI.COMM_WORLD.Dup()
team = mmchain.Team(comm)
count = team.count
assert 0 <= team.rank < count and "ranks" in repr(team)


def block(size, parts, at):
    width = max(1, -(-size // parts))
    return slice(min(size, at * width), min(size, (at + 1) * width))


def piece_of(matrix, layout):
    rows, cols = {"rows": (count, 1), "columns": (1, count), "whole": (1, 1)}.get(
        layout, tuple(map(int, layout[5:].split("x"))) if layout.startswith("grid") else None
    )
    r = 0 if layout == "whole" else team.rank
    return matrix[block(matrix.shape[0], rows, r // cols), block(matrix.shape[1], cols, r % cols)]


kinds = ["rows", "columns", "whole"] + (["grid 2x2"] if count == 4 else [])
for case in range(24):
    n = int(random.integers(1, 5))
    dims = [int(random.choice([0, 1, 3, 17, 40, 61])) for _ in range(n + 1)]
    dtype = np.dtype(random.choice(["f4", "f8", "c8", "c16"]))
    factors = [random.standard_normal((dims[i], dims[i + 1])).astype(dtype) for i in range(n)]
    if dtype.kind == "c":
        factors = [f + (1j * random.standard_normal(f.shape)).astype(dtype) for f in factors]
    want = factors[0].astype("c16")
    bound = abs(want)
    for f in factors[1:]:
        want, bound = want @ f, bound @ abs(f)
    layouts = [str(random.choice(kinds)) for _ in range(n)]
    result = str(random.choice(kinds))
    if case % 3 == 0:
        pieces, layouts = factors, None
    else:
        pieces = [piece_of(f, layout) for f, layout in zip(factors, layouts)]
    if case % 2 == 0:
        pieces = [np.asfortranarray(p) for p in pieces]
    got = team.multi_dot(
        pieces, layouts=layouts, result=result, precision="reproducible" if case % 4 == 1 else None
    )
    mine, limit = piece_of(want, result), piece_of(bound, result)
    assert got.dtype == dtype and got.shape == mine.shape, (case, got.shape, mine.shape)
    error = abs(got - mine)
    tolerance = 8 * (sum(dims) + 4) * np.finfo(dtype).eps
    assert (error <= tolerance * limit).all(), (case, seed, dims, layouts, result)

a, b = random.standard_normal((50, 30)), random.standard_normal((30, 20))
assert np.allclose(team.multi_dot([a, b]), a @ b)
assert np.array_equal(
    team.multi_dot([a, b], precision="reproducible"),
    mmchain.multi_dot([a, b], precision="reproducible"),
)
plan = team.plan([piece_of(a, "rows"), piece_of(b, "rows")], layouts=["rows", "rows"])
assert plan is team.plan([piece_of(a, "rows"), piece_of(b, "rows")], layouts=["rows", "rows"])
assert "scalapack" in str(plan) and '"words"' in plan.explain("json") and plan.words >= 0
assert plan.predicted_seconds > 0 and plan.rank_bytes > 0
# Plans keep memory, and are kept while that is little.
for side in range(700, 725):
    team.plan([np.ones((side, 1500)), np.ones((1500, 1500))])
sizes = [each.rank_bytes for each in team._plans.values()]
assert len(sizes) > 1 and sum(sizes) <= 1 << 28, sizes
assert plan is not team.plan([piece_of(a, "rows"), piece_of(b, "rows")], layouts=["rows", "rows"])
out = np.empty_like((a @ b)[plan.piece()])
assert plan.execute([a[plan.piece(0)], b[plan.piece(1)]], out) is out
assert np.allclose(out, (a @ b)[plan.piece()])


def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), (text, str(error))
    else:
        raise AssertionError(f"no {kind.__name__}: {text}")


last = count - 1


class Unreadable:
    shape, ndim, dtype = (50, 30), 2, np.dtype("f8")

    def __array__(self, *unused, **also):
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "no \0 such \udcff array")


def on_last(wrong, right):
    return wrong if team.rank == last else right


# What one rank alone gives is told on all.
whole = team.plan([a, b], result="whole")
kept = np.empty((50, 20))
kept.flags.writeable = team.rank != last
pieces = on_last([Unreadable(), b], [a, b])
fails(ValueError, f"rank {last}: 'utf-8' codec", lambda: team.multi_dot(pieces))
at = f"rank {last}: " if count > 1 else ""
fails(ValueError, f"{at}'utf-8' codec", lambda: whole.execute(pieces))
fails(ValueError, f"{at}pieces: expected a seq", lambda: whole.execute(on_last(3, [a, b])))
fails(ValueError, f"{at}out: expected an array that can", lambda: whole.execute([a, b], kept))
fails(ValueError, f"{at}dtype: expected one of", lambda: team.calibrate(on_last("i8", "f8")))
for name, wrong in {"layouts": 3, "result": "x", "memory_limit": -1, "pieces": None}.items():
    given = {"pieces": [a, b], name: on_last(wrong, [a, b] if name == "pieces" else None)}
    for call in (team.plan, team.multi_dot):
        fails((ValueError, TypeError), f"rank {last}: {name}: expected", lambda: call(**given))
assert np.allclose(whole.execute([a, b]), a @ b)
wrong = np.zeros(3) if team.rank == last else a
fails(ValueError, f"rank {last}: pieces[0]", lambda: team.multi_dot([wrong, b]))
wrong = a.astype(object) if team.rank == last else a
fails((TypeError, ValueError), f"rank {last}: pieces", lambda: team.multi_dot([wrong, b]))
fails(ValueError, "layouts: expected rows", lambda: team.multi_dot([a], layouts=["diagonal"]))
fails(ValueError, "layouts: expected 2, got 1", lambda: team.multi_dot([a, b], layouts=["rows"]))
fails(ValueError, "factor 0 has 30 columns", lambda: team.multi_dot([a, a]))
fails(RuntimeError, "natively or reproducibly", lambda: team.plan([a, b], precision="fast"))
if count > 1:
    asked = "rows" if team.rank == last else "columns"
    fails(ValueError, "other layouts or options", lambda: team.multi_dot([a, b], result=asked))
    bad = out[:0, :0] if team.rank == last else out
    fails(
        ValueError,
        f"rank {last}: out: expected",
        lambda: plan.execute([a[plan.piece(0)], b[plan.piece(1)]], bad),
    )
fails(TypeError, "comm: expected a communicator of mpi4py", lambda: mmchain.Team(3))
team.multi_dot([a, b])
team.close()
team.close()
fails(ValueError, "closed", lambda: team.multi_dot([a, b]))
assert repr(team) == "<mmchain.Team: closed>"
if comm is not None:
    # Two teams of other ranks than all.
    half = comm.Split(team.rank % 2)
    with mmchain.Team(half) as part:
        assert part.count == half.size
        assert np.allclose(part.multi_dot([a, b]), a @ b)
if team.rank == 0:
    print(f"{count} ranks, {'mpi4py ' + MPI.Get_library_version()[:14] if MPI else 'no mpi4py'}: ok")
