"""Chains on several processes, which MPI connects."""

from __future__ import annotations

import atexit
import operator
import struct
import sys
import weakref
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

import numpy as np

from . import _mmchain
from ._host import Kind, name_of
from ._shapes import bytes_of

_KINDS = {"rows": 0, "columns": 1, "whole": 3}
# How many plans a team keeps, and the bytes that a rank may hold by all of them but a single one:
# plans keep the memory of their last execution.
_PLANS, _PLANS_BYTES = 64, 1 << 28


def _listed(argument: str, items: Any) -> List[Any]:
    if not hasattr(items, "__iter__"):
        raise TypeError(f"{argument}: expected a sequence, got {type(items).__name__}")
    return list(items)


def _spread(layout: Any, argument: str) -> Tuple[int, int, int]:
    """The layout as the library numbers it."""
    text = layout if isinstance(layout, str) else ""
    if text in _KINDS:
        return _KINDS[text], 0, 0
    rows, x, cols = text[5:].partition("x")
    if text.startswith("grid ") and x and rows.isdecimal() and cols.isdecimal():
        return 2, int(rows), int(cols)
    raise ValueError(
        f"{argument}: expected rows, columns, whole or a grid as in 'grid 2x2', got {layout!r}"
    )


def _plain(error: Exception) -> str:
    """What an exception says, without what has no UTF-8 or ends a text of C."""
    return str(error).replace("\0", "?").encode("utf-8", "backslashreplace").decode()


def _address(comm: Any) -> Optional[int]:
    if comm is None:
        return None
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(comm, mpi.Comm):
        raise TypeError(
            f"comm: expected a communicator of mpi4py, or None, got {type(comm).__name__}"
        )
    return int(mpi._addressof(comm))


class _Spread:
    """PyTorch's distributed tensors: their pieces, how they lie, and a product as one of them."""

    def __init__(self, tensors: Sequence[Any], module: Any, count: int):
        first = next(t for t in tensors if isinstance(t, module.DTensor))
        self._module = module
        self._mesh = first.device_mesh
        if self._mesh.mesh.flatten().tolist() != list(range(count)):
            raise ValueError(f"pieces: expected a mesh of ranks 0 to {count - 1} in their order")
        for i, tensor in enumerate(tensors):
            if not isinstance(tensor, module.DTensor) or tensor.device_mesh != self._mesh:
                raise TypeError(f"pieces[{i}]: expected a DTensor of the mesh of the first")
        self.shape = (tensors[0].shape[0], tensors[-1].shape[-1])
        self.layouts = [self._layout(i, tensor.placements) for i, tensor in enumerate(tensors)]
        self.pieces = [tensor.to_local() for tensor in tensors]

    def _names(self) -> Dict[Any, str]:
        shard, whole = self._module.Shard, self._module.Replicate()
        if self._mesh.ndim == 1:
            return {(shard(0),): "rows", (shard(1),): "columns", (whole,): "whole"}
        sides = "x".join(map(str, self._mesh.shape))
        return {(shard(0), shard(1)): f"grid {sides}", (whole, whole): "whole"}

    def _layout(self, i: int, placements: Any) -> str:
        if tuple(placements) not in self._names():
            raise ValueError(f"pieces[{i}]: expected blocks of rows, of columns or of a grid, or replicas")
        return self._names()[tuple(placements)]

    def whole(self, piece: Any, layout: str) -> Any:
        """The distributed tensor of which this rank has a piece."""
        placements = next(key for key, name in self._names().items() if name == layout)
        return self._module.DTensor.from_local(
            piece,
            self._mesh,
            placements,
            run_check=False,
            shape=self.shape,
            stride=(self.shape[1], 1),
        )

    def has(self, layout: str) -> bool:
        return layout in self._names().values()


def _spread_of(pieces: Sequence[Any], count: int) -> Optional[_Spread]:
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or not any(isinstance(p, module.DTensor) for p in _listed("pieces", pieces)):
        return None
    return _Spread(pieces, module, count)


class TeamPlan:
    """A plan over the ranks of a team, as `Team.plan` makes it; printed, it says what it does."""

    def __init__(self, team: "Team", plan: Any, dims: List[int], dtype: np.dtype, given: bool):
        self._team = team
        self._plan = plan
        self._factors = len(dims) - 1
        self.shape: Tuple[int, int] = (dims[0], dims[-1])
        self._dtype = dtype
        self._given = given

    @property
    def words(self) -> int:
        """Elements of matrices that all ranks send together; exactly these are sent."""
        return int(self._plan.words)

    @property
    def predicted_seconds(self) -> float:
        return float(self._plan.predicted_seconds)

    @property
    def rank_bytes(self) -> int:
        """Bytes that a rank holds at most."""
        return int(self._plan.rank_bytes)

    def explain(self, format: str = "text") -> str:
        """What the plan does and why, as "text" or "json"."""
        return str(self._plan.explain(format))

    def __str__(self) -> str:
        return self.explain()

    def piece(self, factor: Optional[int] = None, rank: Optional[int] = None) -> Tuple[slice, slice]:
        """The rows and columns that a rank has of a factor, or of the result: `a[plan.piece(0)]`.

        rank is this one where it is not given."""
        index = -1 if factor is None else operator.index(factor)
        if index >= 0 and not self._given and index < self._factors:
            return slice(None), slice(None)
        of = self._team.rank if rank is None else operator.index(rank)
        row, col, rows, cols = self._plan.piece(index, of)
        return slice(row, row + rows), slice(col, col + cols)

    def execute(self, pieces: Sequence[Any], out: Optional[np.ndarray] = None) -> np.ndarray:
        """This rank's piece of the product. Collective.

        pieces are this rank's, of two dimensions and the plan's dtype; out, unless None, is
        written."""
        # Other ranks are about to agree that all can begin.
        try:
            arrays = self._arrays(pieces)
            target = out = self._target(out)
        except Exception as error:
            self._team._refuse(error)
        if self._plan.execute(arrays, out) is NotImplemented:
            try:
                target = np.empty(out.shape, self._dtype)
                arrays = [np.array(a, self._dtype, order="C") for a in arrays]
            except Exception as error:
                self._team._refuse(error)
            self._plan.execute(arrays, target)
            out[...] = target
        return out

    def _arrays(self, pieces: Sequence[Any]) -> List[np.ndarray]:
        arrays = [np.asarray(piece) for piece in _listed("pieces", pieces)]
        if len(arrays) != self._factors:
            raise ValueError(f"pieces: expected {self._factors}, got {len(arrays)}")
        for i, array in enumerate(arrays):
            if array.ndim != 2 or not np.can_cast(array.dtype, self._dtype, "safe"):
                raise ValueError(f"pieces[{i}]: expected two dimensions of {self._dtype.name}")
        return arrays

    def _target(self, out: Optional[np.ndarray]) -> np.ndarray:
        rows, cols = self.piece()
        shape = (rows.stop - rows.start, cols.stop - cols.start)
        if out is None:
            return np.empty(shape, self._dtype)
        if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != self._dtype:
            raise ValueError(f"out: expected {self._dtype.name} of shape {shape}")
        if not out.flags.writeable:
            raise ValueError("out: expected an array that can be written")
        return out


_teams: "weakref.WeakSet[Team]" = weakref.WeakSet()


def _leave_open() -> None:
    """Keeps teams from being closed where an exception ends the process. To finalize MPI is to wait
    for ranks that may be elsewhere; what started them ends them once one has gone without that."""
    if hasattr(sys, "last_type"):
        for team in _teams:
            team._close.atexit = False


class Team:
    """Processes that multiply chains together, each of which holds a piece of every matrix.

    mpirun or srun starts them, all of them make the same calls in the same order, and an error is
    raised in all of them and says whose it is.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        The processes; without it all that were started together, for which mpi4py is not needed.
    engine : str
        "scalapack".

    Examples
    --------
    With four processes, each with a block of the rows of two matrices:

    >>> team = mmchain.Team(MPI.COMM_WORLD)  # doctest: +SKIP
    >>> piece = team.multi_dot([a, b], layouts=["rows", "rows"])  # doctest: +SKIP
    >>> product = team.multi_dot([a_whole, b_whole])  # doctest: +SKIP
    >>> print(team.plan([a, b], layouts=["rows", "rows"]))  # doctest: +SKIP

    `piece` has rows of the product; without layouts all processes give the same matrices.
    """

    def __init__(self, comm: Any = None, *, engine: str = "scalapack"):
        self._team = _mmchain.Team(engine, _address(comm))
        self._plans: Dict[Any, TeamPlan] = {}
        self._close = weakref.finalize(self, self._team.close)
        _teams.add(self)
        atexit.unregister(_leave_open)
        atexit.register(_leave_open)  # before weakref's function, which was registered first
        self.rank: int = self._team.rank
        self.count: int = self._team.count

    def close(self) -> None:
        """Leaves the team. Collective. It is done at the end of the process at the latest, unless
        that is an exception that nobody catches: then the other ranks are ended as well."""
        self._close()

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mmchain.Team: {self._team.describe() if self._close.alive else 'closed'}>"

    def calibrate(self, dtype: Any = np.float64) -> None:
        """Measures what ranks and messages take, which plans then go by. Collective."""
        try:
            name = name_of(np.dtype(dtype))
        except Exception as error:
            self._refuse(error)
        self._team.calibrate(name)

    def _refuse(self, error: Exception) -> NoReturn:
        """Raises on all ranks, of which the others agree now that they can begin."""
        self._team.refuse(_plain(error))
        raise error

    def _gather(self, mine: bytes) -> List[bytes]:
        """What each rank has to say."""
        sizes = self._team.gather(struct.pack("q", len(mine)))
        lengths = struct.unpack(f"{self.count}q", sizes)
        most = max(lengths)
        if most == 0:
            return [b""] * self.count
        every = self._team.gather(mine.ljust(most, b"\0"))
        return [every[r * most : r * most + lengths[r]] for r in range(self.count)]

    def _meet(
        self, read: Callable[[], Tuple[Sequence[Any], Dict[str, Any]]]
    ) -> Tuple[List[Any], TeamPlan]:
        """This rank's pieces as NumPy's, and the plan for those of all ranks. read() says which
        pieces, and what is asked for. What one rank cannot read, or understands otherwise, is an
        error on all."""
        arrays: List[Any] = []
        asked: Dict[str, Any] = {}
        trouble: Optional[Exception] = None
        try:
            pieces, asked = read()
            arrays = [Kind(piece).to_numpy(piece) for piece in _listed("pieces", pieces)]
            said = b"=" + self._say(arrays, asked)
        except Exception as error:
            trouble = error
            said = b"!" + _plain(error).encode()
        every = self._gather(said)
        for rank, text in enumerate(every):
            if text.startswith(b"!"):
                kind = type(trouble) if type(trouble) in (TypeError, MemoryError) else ValueError
                raise kind(f"rank {rank}: {text[1:].decode()}") from trouble
        told = [text[1:].partition(b"|") for text in every]
        for rank, (_, _, options) in enumerate(told):
            if options != told[0][2]:
                raise ValueError(f"rank {rank}: has other layouts or options than rank 0")
        words = [text.split() for text, _, _ in told]
        if any(len(word) != len(words[0]) for word in words):
            raise ValueError("pieces: ranks have different numbers of factors")
        dtype = np.result_type(*(np.dtype(word[0].decode()) for word in words))
        shapes = [[tuple(map(int, each.split(b"x"))) for each in word[1:]] for word in words]
        return arrays, self._planned(dtype, shapes, asked)

    def _say(self, arrays: List[Any], asked: Any) -> bytes:
        """The dtype and the shapes of this rank's pieces, and what is asked for."""
        layouts = asked["layouts"]
        if not arrays:
            raise ValueError("pieces: expected factors, got none")
        if layouts is not None and len(layouts) != len(arrays):
            raise ValueError(f"layouts: expected {len(arrays)}, got {len(layouts)}")
        for i, array in enumerate(arrays):
            if array.ndim != 2:
                raise ValueError(f"pieces[{i}]: expected two dimensions, got {array.ndim}")
        dtype = np.result_type(*(array.dtype for array in arrays))
        if dtype.char not in "fdFD":
            raise TypeError(
                f"pieces: expected float32, float64, complex64 or complex128, got {dtype.name}"
            )
        shapes = " ".join(f"{array.shape[0]}x{array.shape[1]}" for array in arrays)
        return f"{dtype.char} {shapes}|{sorted(asked.items())}".encode()

    def _dims(self, shapes: Any, spreads: Any) -> List[int]:
        """The dims of the chain, whose pieces have these shapes on each rank."""
        sizes: List[Tuple[int, int]] = []
        for i in range(len(shapes[0])):
            kind, grid_rows, grid_cols = spreads[i] if spreads is not None else _spread("whole", "")
            if kind == 0:
                grid_rows, grid_cols = self.count, 1
            elif kind == 1:
                grid_rows, grid_cols = 1, self.count
            elif kind == 3:
                grid_rows, grid_cols = 1, 1
            if kind == 2 and grid_rows * grid_cols != self.count:
                raise ValueError(
                    f"layouts: expected a grid of {self.count} ranks, got {grid_rows}x{grid_cols}"
                )
            blocks = range(grid_rows * grid_cols)
            # Ranks that have nothing of a matrix may say 0 x 0.
            rows = sum(
                max(shapes[r][i][0] for r in blocks if r // grid_cols == at)
                for at in range(grid_rows)
            )
            cols = sum(
                max(shapes[r][i][1] for r in blocks if r % grid_cols == at)
                for at in range(grid_cols)
            )
            sizes.append((rows, cols))
        for i in range(1, len(sizes)):
            if sizes[i - 1][1] != sizes[i][0]:
                raise ValueError(
                    f"pieces: factor {i - 1} has {sizes[i - 1][1]} columns, and factor {i} "
                    f"{sizes[i][0]} rows"
                )
        return [sizes[0][0]] + [cols for _, cols in sizes]

    def _planned(self, dtype: Any, shapes: Any, asked: Any) -> TeamPlan:
        spreads = asked["layouts"]
        dims = self._dims(shapes, spreads)
        key = f"{dtype.char} {dims} {sorted(asked.items())}"
        if key not in self._plans:
            made = _mmchain.TeamPlan(
                self._team,
                name_of(dtype) + ":" + "x".join(map(str, dims)),
                spreads,
                asked["result"],
                asked["objective"],
                asked["precision"],
                asked["all_ranks"],
                asked["memory_limit"],
                asked["order"],
            )
            self._plans[key] = TeamPlan(self, made, dims, dtype, spreads is not None)
            kept = [plan.rank_bytes for plan in self._plans.values()]  # the same on all ranks
            while len(kept) > 1 and (len(kept) > _PLANS or sum(kept) > _PLANS_BYTES):
                del self._plans[next(iter(self._plans))], kept[0]
        return self._plans[key]

    def _block(self, spread: Tuple[int, int, int], shape: Tuple[int, int]) -> Tuple[int, int]:
        """The shape of this rank's block, which may be empty, of a matrix of such a shape."""
        kind, rows, cols = spread
        if kind < 2:
            rows, cols = (self.count, 1) if kind == 0 else (1, self.count)
        if kind == 3:
            return shape
        sides = []
        for size, parts, at in zip(shape, (rows, cols), divmod(self.rank, cols)):
            width = max(1, -(-size // parts))
            sides.append(min(size, (at + 1) * width) - min(size, at * width))
        return sides[0], sides[1]

    def plan(
        self,
        pieces: Sequence[Any],
        *,
        layouts: Optional[Sequence[str]] = None,
        result: Optional[str] = None,
        objective: Optional[str] = None,
        precision: Optional[str] = None,
        all_ranks: bool = False,
        memory_limit: Optional[int] = None,
        order: Optional[str] = None,
    ) -> TeamPlan:
        """The plan for factors of which each rank passes its pieces. Collective.

        Parameters
        ----------
        pieces : arrays of two dimensions
            This rank's, NumPy's, PyTorch's or JAX's, in the host's memory.
        layouts : sequence of str, optional
            How each factor lies: "rows", "columns", "grid 2x2" (blocks in the order of the
            ranks) or "whole". Blocks are the dim divided by the ranks, rounded up, as
            `torch.chunk` has them. Without layouts every rank has all matrices whole.
        result : str, optional
            The layout of the result; without it the plan chooses.
        objective : str, optional
            "time", "energy" or "words".
        precision : str, optional
            "native" or "reproducible".
        all_ranks : bool
            Use all ranks even where fewer are faster.
        memory_limit : int, optional
            Bytes that a rank may hold.
        order : str, optional
            Parentheses, as in "((A1 A2) A3)".
        """
        rest = (objective, precision, all_ranks, memory_limit, order)
        return self._meet(lambda: (pieces, _asked(layouts, result, *rest)))[1]

    def multi_dot(
        self,
        pieces: Sequence[Any],
        *,
        layouts: Optional[Sequence[str]] = None,
        result: Optional[str] = None,
        objective: Optional[str] = None,
        precision: Optional[str] = None,
        all_ranks: bool = False,
        memory_limit: Optional[int] = None,
        order: Optional[str] = None,
    ) -> Any:
        """This rank's piece of the product, as an array of the kind of the first. Collective.

        The arguments are those of `plan`. Without result it is whole where the factors are, and
        in rows where they have layouts. Plans are kept for the next time.

        PyTorch's distributed tensors (DTensor) on a mesh of the ranks, in their order, say
        themselves how they lie; the product is one of them, without result laid out as the first.
        """
        spread: Optional[_Spread] = None

        def read() -> Tuple[Sequence[Any], Dict[str, Any]]:
            nonlocal spread, pieces, layouts, result
            spread = _spread_of(pieces, self.count)
            if spread is not None:
                if layouts is not None:
                    raise ValueError("layouts: expected none with DTensors, which say how they lie")
                pieces, layouts = spread.pieces, spread.layouts
                result = layouts[0] if result is None else result
                if not spread.has(result):
                    raise ValueError(f"result: expected a layout of the mesh, got {result!r}")
            if result is None:
                result = "whole" if layouts is None else "rows"
            rest = (objective, precision, all_ranks, memory_limit, order)
            return pieces, _asked(layouts, result, *rest)

        arrays, plan = self._meet(read)
        mine = plan.execute(arrays)
        if mine.size == 0:
            mine = mine.reshape(self._block(_spread(result, "result"), plan.shape))
        product = Kind(pieces[0]).from_numpy(mine)
        return product if spread is None else spread.whole(product, result)


def _asked(
    layouts: Any,
    result: Any,
    objective: Any,
    precision: Any,
    all_ranks: Any,
    memory_limit: Any,
    order: Any,
) -> Dict[str, Any]:
    """What is asked of a plan, with layouts as the library numbers them."""
    return {
        "layouts": None
        if layouts is None
        else [_spread(layout, "layouts") for layout in _listed("layouts", layouts)],
        "result": None if result is None else _spread(result, "result"),
        "objective": objective,
        "precision": precision,
        "all_ranks": bool(all_ranks),
        "memory_limit": bytes_of(memory_limit),
        "order": order,
    }
