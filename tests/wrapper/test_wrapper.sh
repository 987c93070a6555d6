#!/usr/bin/env bash
# test_wrapper.sh MMCHAIN WRAPPER GEMM FAKE_BLAS: programs that know nothing of mmchain, with libmmchain-blas.so
# preloaded; GEMM is linked with FAKE_BLAS. Exits 77 without the wisdom store or a CBLAS.
set -eu
mmchain=$1 wrapper=$2 gemm=$3 fake_blas=$4
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
export LC_ALL=C MMCHAIN_WISDOM=$root/none.db MMCHAIN_BLAS_GPU=blas

fail() { echo "FAIL $*" >&2; exit 1; }
preloaded() { LD_PRELOAD=$wrapper "$@"; }

# ---- without wisdom ------------------------------------------------------------------------------

LD_BIND_NOW=1 preloaded env true || fail "the wrapper lacks a function"
"$gemm" check 1 1 1 || fail "without the wrapper"
preloaded "$gemm" check 1 1 1 || fail "without wisdom"
preloaded "$gemm" threads || fail "threads without wisdom"
preloaded "$gemm" memory || fail "memory runs out without wisdom"
# A call that is not cut takes at most 60 ns more, of the quietest of many.
bare=$("$gemm" time) wrapped=$(preloaded "$gemm" time)
awk -v a="$bare" -v b="$wrapped" 'BEGIN { exit !(b - a < 60) }' || fail "the lookup takes $wrapped ns against $bare"
echo "a call without wisdom: $bare ns, wrapped $wrapped ns"

# ---- with wisdom ---------------------------------------------------------------------------------

"$mmchain" info | grep -A20 '^devices' | grep -q '^  blas *here' || { echo "no CBLAS"; exit 77; }
export MMCHAIN_WISDOM=$root/wisdom.db
echo '5 5 5' >"$root/set"
# Wisdom of the BLAS that NumPy has, and of the one that the program is linked with.
for blas in own "$fake_blas"; do
  MMCHAIN_BLAS=$blas "$mmchain" tune --set "$root/set" --on blas --budget 0.2 >/dev/null 2>"$root/said" || true
done
"$mmchain" wisdom export -o "$root/own" || { cat "$root/said"; exit 77; }
grep '^fingerprint "blas".*"f64"' "$root/own" >"$root/fingerprints" || fail "no fingerprint: $(cat "$root/said")"
products() { # products M K N RECIPE: for every op
  for a in N T H; do for b in N T H; do
    echo "product $1 $2 $3 $a $b time \"$4\" 1e-05 0.01 2e-05 2 1.9 2.1 \"measured\" 2000000000"
  done; done
}
{
  echo "mmchain wisdom 1"
  while read -r fingerprint; do for dtype in c128 c64 f32 f64; do
    echo "${fingerprint/\"f64\"/\"$dtype\"}"
    { products 40 32 48 'm:8,32(k:16,16)'; products 48 32 40 'n:24,16(m:16,32(k:20,12))'; } | LC_ALL=C sort
  done; done <"$root/fingerprints"
} >"$root/made"
echo "end $(grep -c '^product' "$root/made")" >>"$root/made"
"$mmchain" wisdom import "$root/made" >/dev/null || fail "import"
preloaded "$gemm" check 4 3 3 || fail "with wisdom"
preloaded "$gemm" threads || fail "threads with wisdom"
preloaded "$gemm" forks || fail "forks with wisdom"
most=30
[ -z "${MMCHAIN_TEST_LONG-}" ] || most=1000000
preloaded "$gemm" memory "$most" || fail "memory runs out with wisdom"
wrapped=$(preloaded "$gemm" time)
awk -v a="$bare" -v b="$wrapped" 'BEGIN { exit !(b - a < 250) }' || fail "the lookup takes $wrapped ns against $bare"
echo "a call with wisdom for others: wrapped $wrapped ns"
# mmchain's own calls are left alone: a chain multiplied with the wrapper is right.
"$mmchain" generate f64:48x32x40 -o "$root/f" --seed 1 >/dev/null
preloaded "$mmchain" multiply "$root"/f/*.npy -o "$root/r.npy" --check >"$root/said" 2>&1 || fail "mmchain: $(cat "$root/said")"

# ---- NumPy ---------------------------------------------------------------------------------------

python=
for found in ${MMC_PYTHON:-python3 /usr/bin/python3}; do
  [ -n "$python" ] || ! "$found" -c 'import numpy' 2>/dev/null || python=$found
done
[ -n "$python" ] || { echo "no python3 with NumPy"; exit 0; }
cat >"$root/dot.py" <<'END'
import numpy
rng = numpy.random.default_rng(1)
for dtype in (numpy.float64, numpy.float32, numpy.complex128):
    for shape in ((48, 32, 40), (40, 32, 48), (31, 7, 90)):
        a, b = rng.standard_normal(shape[:2]).astype(dtype), rng.standard_normal(shape[1:]).astype(dtype)
        for x, y in ((a, b), (a.T.copy().T, b), (a, b.T.copy().T)):
            want = numpy.einsum("ik,kj->ij", x, y)
            assert numpy.allclose(x @ y, want, rtol=1e-4, atol=1e-4), (dtype, shape)
print("right")
END
[ "$(preloaded "$python" -W error "$root/dot.py")" = right ] || fail "NumPy"
# The linker says that NumPy's products go to the wrapper.
LD_DEBUG=bindings LD_PRELOAD=$wrapper "$python" "$root/dot.py" 2>&1 >/dev/null |
  grep -q 'umath.*to .*libmmchain-blas.so.*gemm' || fail "NumPy does not call the wrapper"
