"""Chains with structure on a GPU beside PyTorch as it is written down, answers checked:
python3 bench/bench_structure_gpu.py [SIDE [REPEATS]] (4096, 20).

Both work on the same tensors on the current CUDA device, in float32 without TF32 and in float64; turns of the
two alternate, and the least of all is told, by the device's clock. The error is that of ours in float64's
residual, over the greatest element. Exit status 77: no PyTorch or no CUDA device; 1: an answer is wrong.
"""

import sys

import mmchain

try:
    import torch
except ImportError:
    torch = None


def seconds(run):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def by_cholesky(b, s):
    return torch.cholesky_solve(b, torch.linalg.cholesky(s))


def cases(side, dtype):
    random = torch.Generator(device="cuda").manual_seed(1)

    def uniform(*shape):
        return torch.rand(*shape, generator=random, device="cuda", dtype=dtype) * 2 - 1

    eye = torch.eye(side, device="cuda", dtype=dtype)
    a, b = uniform(side, side), uniform(side, side)
    low = torch.tril(uniform(side, side)) / side + 1.5 * eye
    d = torch.diag(uniform(side) + 2)
    s = a @ a.T / side + eye
    g = a / side**0.5 + 3 * eye
    inv, lower, diagonal, spd, dot = mmchain.inv, mmchain.lower, mmchain.diagonal, mmchain.spd, mmchain.multi_dot
    known = mmchain.Factor(a)
    solve = torch.linalg.solve_triangular
    # The name, ours, PyTorch's, the factors to multiply the answer with, what that should be, and the ratio asked for.
    return [
        ("A A^T", lambda: dot([known, known.T]), lambda: a @ a.T, [], [a, a.T], 1.5),
        ("L B", lambda: dot([lower(low), b]), lambda: low @ b, [], [low, b], 1.3),
        ("D A D", lambda: dot([diagonal(d), a, diagonal(d)]), lambda: d @ a @ d, [], [d, a, d], 5),
        ("L^-1 B", lambda: dot([inv(lower(low)), b]), lambda: solve(low, b, upper=False), [low], [b], 1),
        ("SPD^-1 B", lambda: dot([inv(spd(s)), b]), lambda: by_cholesky(b, s), [s], [b], 1),
        ("SPD^-1 B, solve", lambda: dot([inv(spd(s)), b]), lambda: torch.linalg.solve(s, b), [s], [b], 1),
        ("G^-1 B, solve", lambda: dot([inv(g), b]), lambda: torch.linalg.solve(g, b), [g], [b], 1),
    ]


def applied(factors, t):
    for factor in reversed(factors):
        t = factor.double() @ t
    return t


def main():
    if torch is None or not torch.cuda.is_available():
        print("no PyTorch with a CUDA device")
        return 77
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, sides {side}, the least of {repeats}")
    print(f"{'':8}{'':18}{'ours':>12}{'PyTorch':>12}{'ratio':>8}{'asked':>8}{'error':>10}")
    wrong = 0
    for dtype in (torch.float32, torch.float64):
        for name, ours, theirs, before, wanted, asked in cases(side, dtype):
            try:
                t = torch.rand(side, 1, device="cuda", dtype=torch.float64) - 0.5
                should = applied(wanted, t)
                error = float((applied([*before, ours()], t) - should).abs().max() / should.abs().max())
                theirs()
                times = [[seconds(ours), seconds(theirs)] for _ in range(repeats)]
                best = [min(turn[i] for turn in times) for i in range(2)]
            except Exception as trouble:  # the other cases are told all the same
                print(f"{str(dtype)[6:]:8}{name:18}{type(trouble).__name__}: {trouble}")
                wrong += 1
                continue
            wrong += not error <= 1e3 * torch.finfo(dtype).eps
            ratio = best[1] / best[0]
            times = f"{best[0] * 1e3:9.3f} ms{best[1] * 1e3:9.3f} ms{ratio:8.2f}{asked:8.1f}"
            print(f"{str(dtype)[6:]:8}{name:18}{times}{error:10.1e}", flush=True)
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
