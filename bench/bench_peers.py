"""Chains of bench_structure.py against Eigen, Armadillo and Octave, as their users write them:
python3 bench/bench_peers.py [COUNT [SEED]].

It needs c++, Eigen's and Armadillo's headers and octave-cli (on Debian libeigen3-dev, libarmadillo-dev and octave), and takes
those that are there. A chain is one expression in each, from left to right, with the words that the library has for
what a matrix is: triangularView, selfadjointView and asDiagonal of Eigen, which forms inverses, of definite matrices
by llt; trimatl, diagmat, inv and inv_sympd of Armadillo, whose expressions choose an order of up to four factors and
solve for inv(A)*B by themselves; \\ and / of Octave, which looks for triangles. Eigen and Armadillo are
compiled with -O3 -march=native and call the BLAS of -lblas. Each is the least of two turns of three runs or a
fifth of a second, a process of its own each time, which reads the same matrices; results are compared.
"""

import math
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import bench_structure
import mmchain

RUNS, SECONDS = 3, 0.2  # so many runs at least, and for so long

EIGEN = """
#include <Eigen/Dense>
using namespace Eigen;
typedef MatrixXd mat;
static mat read(const char *name, long rows, long cols) {
  mat m(rows, cols);
  FILE *f = fopen(name, "rb");
  if (!f || fread(m.data(), 8, rows * cols, f) != size_t(rows * cols)) exit(1);
  fclose(f);
  return m;
}
"""

ARMADILLO = """
#define ARMA_DONT_USE_WRAPPER
#define ARMA_USE_BLAS
#define ARMA_USE_LAPACK
#include <armadillo>
using namespace arma;
static mat read(const char *name, long rows, long cols) {
  mat m(rows, cols);
  FILE *f = fopen(name, "rb");
  if (!f || fread(m.memptr(), 8, rows * cols, f) != size_t(rows * cols)) exit(1);
  fclose(f);
  return m;
}
"""

MAIN = """
#include <chrono>
template <class F> static void measure(F work) {
  double least = 1e9, all = 0;
  mat r;
  for (int i = 0; i < RUNS || all < SECONDS; i++) {
    auto start = std::chrono::steady_clock::now();
    r = work();
    double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    all += s;
    if (s < least) least = s;
  }
  FILE *f = fopen("result.bin", "wb");
  fwrite(DATA(r), 8, size_t(r.size()), f);
  fclose(f);
  printf("%.9f\\n", least);
}
int main(int, char **argv) {
  switch (atoi(argv[1])) {
"""


def eigen_word(factor, name):
    turned = ".transpose()" if factor.turned else ""
    kind = factor.kind
    if kind == "diagonal":
        return f"{name}.diagonal(){'.cwiseInverse()' if factor.inverse else ''}.asDiagonal()"
    if factor.inverse:
        if kind == "spd":
            return f"mat({name}.llt().solve(mat::Identity({name}.rows(), {name}.cols())))"
        return f"{name}{turned}.inverse()"
    if kind in ("lower", "upper"):
        return f"{name}.triangularView<{kind.capitalize()}>(){turned}"
    if kind in ("symmetric", "spd"):
        return f"{name}.selfadjointView<Lower>()"
    return name + turned


def eigen(chain):
    """Views stand in products with a matrix: of two that are no matrices the left one is made one."""
    words = [eigen_word(f, f"a{i}") for i, f in enumerate(chain)]
    if chain[0].kind != "general" and not chain[0].inverse and chain[0].kind != "diagonal":
        words[0] = f"mat({words[0].replace('selfadjointView<Lower>()', 'selfadjointView<Lower>().toDenseMatrix()')})"
    if chain[0].kind == "diagonal":
        words[0] = f"mat({words[0]})"
    text = words[0]
    for word in words[1:]:
        text = f"mat({text} * {word})"
    return text


def armadillo_word(factor, name):
    kind = factor.kind
    if kind == "diagonal":
        return f"inv(diagmat({name}))" if factor.inverse else f"diagmat({name})"
    word = {"lower": f"trimatl({name})", "upper": f"trimatu({name})"}.get(kind, name)
    if factor.turned:
        word += ".t()"
    if factor.inverse:
        word = f"{'inv_sympd' if kind == 'spd' else 'inv'}({word})"
    return word


def armadillo(chain):
    return "mat(" + " * ".join(armadillo_word(f, f"a{i}") for i, f in enumerate(chain)) + ")"


def octave(chain):
    text = ""
    for i, factor in enumerate(chain):
        name = f"a{i}"  # diagonal ones are of Octave's own type
        name += "'" if factor.turned else ""
        if i == 0:
            text = name
        else:
            solves_left = i == 1 and chain[0].inverse
            if factor.inverse and solves_left:
                text = f"inv({text}) / {name}"
            else:
                text += f" {chr(92) if solves_left else '/' if factor.inverse else '*'} {name}"
    return f"inv({text})" if len(chain) == 1 and chain[0].inverse else text


def compile_chains(folder, chains, library, expression, head, data, flags):
    cases = []
    for number, chain in enumerate(chains):
        reads = "".join(
            f'mat a{i} = read("c{number}_{i}.bin", {f.array.shape[0]}, {f.array.shape[1]});'
            for i, f in enumerate(chain)
        )
        cases.append(f"case {number}: {{ {reads} measure([&] {{ return mat({expression(chain)}); }}); break; }}\n")
    source = os.path.join(folder, f"{library}.cpp")
    with open(source, "w") as file:
        file.write("#include <cstdio>\n#include <cstdlib>\n" + head + MAIN + "".join(cases) + "}}\n")
    program = os.path.join(folder, library)
    done = subprocess.run(
        ["c++", "-O3", "-march=native", "-w", f"-DRUNS={RUNS}", f"-DSECONDS={SECONDS}", f"-DDATA(r)={data}", *flags, source, "-o", program, "-llapack", "-lblas"],
        capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{library} is left out: {done.stderr.strip().splitlines()[0] if done.stderr else done.returncode}")
        return None
    return lambda number: [program, str(number)]


def write_octave(folder, chains):
    if shutil.which("octave-cli") is None:
        print("octave is left out: there is no octave-cli")
        return None
    for number, chain in enumerate(chains):
        lines = []
        for i, f in enumerate(chain):
            rows, columns = f.array.shape
            lines.append(f"f = fopen('c{number}_{i}.bin'); a{i} = fread(f, [{rows} {columns}], 'double'); fclose(f);")
            if f.kind == "diagonal":
                lines.append(f"a{i} = diag(diag(a{i}));")
        lines.append("least = Inf; i = 0; all = tic;")
        lines.append(f"while i < {RUNS} || toc(all) < {SECONDS}; t = tic; r = {octave(chain)}; least = min(least, toc(t)); i++; end")
        lines.append("f = fopen('result.bin', 'w'); fwrite(f, full(r), 'double'); fclose(f); printf('%.9f\\n', least);")
        with open(os.path.join(folder, f"c{number}.m"), "w") as file:
            file.write("\n".join(lines) + "\n")
    return lambda number: ["octave-cli", "--quiet", "--no-init-file", f"c{number}.m"]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = np.random.default_rng(seed)
    chains = [bench_structure.make_chain(rng) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        peers = {
            "Eigen": compile_chains(folder, chains, "eigen", eigen, EIGEN, "r.data()", ["-DEIGEN_USE_BLAS", "-I/usr/include/eigen3"]),
            "Armadillo": compile_chains(folder, chains, "armadillo", armadillo, ARMADILLO, "r.memptr()", []),
            "Octave": write_octave(folder, chains),
        }
        peers = {name: command for name, command in peers.items() if command is not None}
        ratios = {name: [] for name in peers}
        for number, chain in enumerate(chains):
            for i, factor in enumerate(chain):
                factor.array.T.tofile(os.path.join(folder, f"c{number}_{i}.bin"))
            factors = [factor.ours() for factor in chain]
            best = dict.fromkeys(["ours", *peers], math.inf)
            for _ in range(2):
                taken = []
                while len(taken) < RUNS or sum(taken) < SECONDS:
                    took, ours = bench_structure.seconds(lambda: mmchain.multi_dot(factors))
                    taken.append(took)
                best["ours"] = min(best["ours"], *taken)
                for name, command in peers.items():
                    done = subprocess.run(command(number), cwd=folder, capture_output=True, text=True)
                    if done.returncode != 0:
                        raise SystemExit(f"chain {number}: {name}: {done.stderr[-400:]}")
                    best[name] = min(best[name], float(done.stdout.split()[-1]))
                    result = np.fromfile(os.path.join(folder, "result.bin")).reshape(ours.shape[::-1]).T
                    if not np.abs(result - ours).max() <= 1e-6 * np.abs(ours).max():
                        raise SystemExit(f"chain {number}: {name} differs")
            for name in peers:
                ratios[name].append(best[name] / best["ours"])
            text = ", ".join(f"{ratios[name][-1]:.2f} of {name}" for name in peers)
            print(f"{mmchain.plan(factors).chain.partition(':')[2]}: {best['ours'] * 1e3:.2f} ms, {text}", flush=True)
    for name, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{name} takes {mean:.2f} times as long in the geometric mean of {count} chains, {min(values):.2f} to {max(values):.2f}")


if __name__ == "__main__":
    main()
