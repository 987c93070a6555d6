"""PyTorch's distributed tensors through mmchain.Team, on the ranks of mpirun; gloo makes their mesh.
Exits with 77 without PyTorch."""

import os
import sys

try:
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
except ImportError:
    sys.exit(77)

import mmchain

team = mmchain.Team()
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1], GLOO_SOCKET_IFNAME="lo")
dist.init_process_group("gloo", rank=team.rank, world_size=team.count)
torch.manual_seed(11)  # the same on all ranks


def put(mesh, matrix, *placements):
    """The matrix as a distributed tensor, whose pieces are copied out of it."""
    piece = matrix
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            size = mesh.size(dim)
            chunks = torch.chunk(piece, size, placement.dim)
            at = mesh.get_local_rank(dim)
            empty = piece.narrow(placement.dim, 0, 0)
            piece = chunks[at] if at < len(chunks) else empty
    return DTensor.from_local(
        piece.contiguous(), mesh, placements, run_check=False, shape=matrix.shape, stride=matrix.stride()
    )


line = init_device_mesh("cpu", (team.count,))
a, b, c = (torch.randn(m, n, dtype=torch.float64) for m, n in [(37, 21), (21, 50), (50, 9)])
want = a @ b @ c
for places in [(Shard(0), Shard(1), Replicate()), (Shard(1), Shard(0), Shard(0)), (Replicate(),) * 3]:
    x = [put(line, matrix, place) for matrix, place in zip((a, b, c), places)]
    got = team.multi_dot(x)
    assert isinstance(got, DTensor) and got.placements == x[0].placements and got.shape == want.shape
    assert torch.allclose(got.full_tensor(), want)
    assert torch.allclose(team.multi_dot(x, result="columns").full_tensor(), want)
if team.count == 4:
    square = init_device_mesh("cpu", (2, 2))
    x = [put(square, matrix, Shard(0), Shard(1)) for matrix in (a, b, c)]
    got = team.multi_dot(x)
    assert got.placements == (Shard(0), Shard(1)) and torch.allclose(got.full_tensor(), want)
    # What goes in is read where it lies.
    piece = x[0].to_local()
    assert mmchain._host.Kind(piece).to_numpy(piece).ctypes.data == piece.data_ptr()
    for bad in ([x[0], put(line, b, Shard(0)), x[2]], [x[0], b, x[2]]):
        try:
            team.multi_dot(bad)
        except TypeError as error:
            assert "pieces[1]: expected a DTensor of the mesh of the first" in str(error)
        else:
            raise AssertionError("two meshes")
dist.destroy_process_group()
team.close()
if team.rank == 0:
    print(f"{team.count} ranks, PyTorch {torch.__version__}: ok")
