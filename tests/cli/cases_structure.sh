# cases_structure.sh: factors that are triangular, symmetric, diagonal or inverses. Sourced by run.sh.

if ! has blas; then
  echo "skipped: structure: no blas"
  return
fi

# matrix PATH ROW...: an .npy file of float64, of rows of numbers with commas between them.
matrix() {
  python3 - "$@" <<'END'
import struct, sys
rows = [list(map(float, row.split(","))) for row in sys.argv[2:]]
header = repr({"descr": "<f8", "fortran_order": False, "shape": (len(rows), len(rows[0]))})
header += " " * (-(len(header) + 11) % 64) + "\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    for row in rows:
        file.write(struct.pack(f"<{len(row)}d", *row))
END
}
values() { python3 "$here/show_npy.py" "$1"; }
says() { verdict "$1" "$([ "$(values "$2")" = "$3" ] || echo "got $(values "$2"), expected $3")"; }
matrix L.npy 2,0 1,4
matrix S.npy 4,2 2,5
matrix D.npy 2,0 0,8
matrix G.npy 0,2 4,0
matrix Z.npy 1,2 2,4
matrix I.npy 1,2 2,1
matrix B.npy 2,4,6 9,10,11
matrix X.npy 1,0 0,2 2,0
matrix T.npy 2,1,0,0 1,3,1,0 0,1,4,1 0,0,1,5
matrix W.npy 2,1,0,0 1,3,1,0 7,1,4,1 0,0,1,5
matrix O.npy 0,-1,0,0 1,0,0,0 0,0,0.6,-0.8 0,0,0.8,0.6
matrix P.npy 0,1,0,0 0,0,0,1 1,0,0,0 0,0,1,0
matrix N.npy 0,1,0,0 0,1,0,0 1,0,0,0 0,0,1,0
matrix K.npy 1,1,0,0 1,1,0,0 0,0,1,1 0,0,0,1
matrix C.npy 1,2 3,4 5,6 7,8

check multiply_lower 0 multiply --for flops L.npy:lower B.npy -o R.npy --check --explain
says multiply_lower_values R.npy "f8 (2, 3) 4 8 12 38 44 50"
check multiply_lower_inverse 0 multiply L.npy:lower:inv B.npy -o R.npy --check
says multiply_lower_inverse_values R.npy "f8 (2, 3) 1 2 3 2 2 2"
check multiply_upper_inverse 0 multiply L.npy:lower:T:inv B.npy -o R.npy --check
check multiply_general_inverse 0 multiply G.npy:inv B.npy -o R.npy --check
says multiply_general_inverse_values R.npy "f8 (2, 3) 2.25 2.5 2.75 1 2 3"
check multiply_inverse_right 0 multiply B.npy:T D.npy:diagonal:inv -o R.npy --check
says multiply_inverse_right_values R.npy "f8 (3, 2) 1 1.125 2 1.25 3 1.375"
check multiply_spd_inverse 0 multiply --for flops S.npy:spd:inv B.npy -o R.npy --check --explain
check multiply_symmetric_inverse 0 multiply --for flops I.npy:symmetric:inv B.npy -o R.npy --check --explain
check multiply_inverse_alone 0 multiply D.npy:diagonal:inv -o R.npy --check
says multiply_inverse_alone_values R.npy "f8 (2, 2) 0.5 0 0 0.125"
check multiply_normal_equations 0 multiply --for flops '(X.npy:T X.npy):inv' X.npy:T -o R.npy --check --explain
says multiply_normal_equations_values R.npy "f8 (2, 3) 0.2 0 0.4 0 0.5 0"
check multiply_groups 0 multiply '(D.npy:diagonal (L.npy:lower S.npy):inv):inv' B.npy -o R.npy --check
check multiply_group_apart 0 multiply --for flops '(T.npy O.npy:orthogonal):inv' C.npy -o R.npy --check --explain
check multiply_group_apart_singular 2 multiply --for flops '(K.npy:T O.npy:orthogonal):inv' C.npy -o R.npy
check plan_group_apart 0 plan 'f64:400x400x200x400x5:(lower,N,N).inv,N'
check plan_group_apart_json 0 plan 'f64:8x8x8x8x1:((lower,upper).inv,spd).inv,N' --json
check plan_group_as_given 0 plan 'f64:400x400x400x5:(lower,upper).inv,N' --order '((A1 A2) A3)'
check multiply_group_plain 0 multiply '(L.npy D.npy)' B.npy -o R.npy --check
check multiply_structure_json 0 multiply --for flops S.npy:spd:inv B.npy -o R.npy --json
check multiply_structure_time 0 multiply S.npy:spd:inv B.npy -o R.npy --for time --check
check multiply_structure_order 0 multiply S.npy:inv L.npy B.npy -o R.npy --order '(A1 (A2 A3))' --check

check multiply_tridiagonal 0 multiply --for flops T.npy:tridiagonal C.npy -o R.npy --check --explain
says multiply_tridiagonal_values R.npy "f8 (4, 2) 5 8 15 20 30 36 40 46"
check multiply_banded 0 multiply C.npy:T "T.npy:banded(1,2)" -o R.npy --check
says multiply_banded_values R.npy "f8 (2, 4) 5 15 30 40 8 20 36 46"
check multiply_tridiagonal_inverse 0 multiply --for flops T.npy:tridiagonal:inv T.npy:tridiagonal C.npy -o R.npy --check --explain
check multiply_banded_inverse 0 multiply C.npy:T "T.npy:banded(1,2):T:inv" -o R.npy --check
check multiply_banded_spd_inverse 0 multiply "T.npy:spd:banded(1,1):inv" C.npy -o R.npy --check
check multiply_permutation 0 multiply --for flops P.npy:permutation C.npy -o R.npy --check --explain
says multiply_permutation_values R.npy "f8 (4, 2) 3 4 7 8 1 2 5 6"
check multiply_permutation_inverse 0 multiply --for flops P.npy:permutation:inv C.npy -o R.npy --check --explain
says multiply_permutation_inverse_values R.npy "f8 (4, 2) 5 6 1 2 7 8 3 4"
check multiply_orthogonal_inverse 0 multiply --for flops O.npy:orthogonal:inv C.npy -o R.npy --check --explain
check multiply_orthogonal_alone 0 multiply O.npy:orthogonal:inv -o R.npy --check
says multiply_orthogonal_alone_values R.npy "f8 (4, 4) 0 1 0 0 -1 0 0 0 0 0 0.6 0.8 0 0 -0.8 0.6"

# What is wrong is told, and nothing is written.
check multiply_singular 2 multiply Z.npy:inv B.npy -o none.npy
check multiply_indefinite 2 multiply I.npy:spd:inv B.npy -o none.npy
check multiply_singular_group 2 multiply B.npy:T '(Z.npy D.npy):inv' -o none.npy
check multiply_not_lower 2 multiply S.npy:lower B.npy -o none.npy --check
check multiply_not_diagonal 2 multiply S.npy:diagonal B.npy -o none.npy --check
check multiply_not_unit 2 multiply L.npy:lower:unit B.npy -o none.npy --check
check multiply_not_symmetric 2 multiply L.npy:symmetric B.npy -o none.npy --check
check multiply_not_banded 2 multiply "W.npy:banded(1,2)" C.npy -o none.npy --check
check multiply_not_tridiagonal 2 multiply W.npy:tridiagonal C.npy -o none.npy --check
check multiply_not_permutation 2 multiply O.npy:permutation C.npy -o none.npy --check
check multiply_not_permutation_twice 2 multiply N.npy:permutation C.npy -o none.npy --check
check multiply_not_orthogonal 2 multiply T.npy:orthogonal C.npy -o none.npy --check
check multiply_singular_tridiagonal 2 multiply K.npy:tridiagonal:inv C.npy -o none.npy
check multiply_singular_banded 2 multiply C.npy:T "K.npy:banded(2,1):inv" -o none.npy
check multiply_band_misspelt 2 multiply "T.npy:banded(1)" C.npy -o none.npy
check multiply_not_square 2 multiply B.npy:inv L.npy -o none.npy
check multiply_no_trait 2 multiply L.npy:triangular B.npy -o none.npy
check multiply_group_op 2 multiply '(L.npy D.npy):T' B.npy -o none.npy
check multiply_group_open 2 multiply '(L.npy D.npy' B.npy -o none.npy
check multiply_group_empty 2 multiply '()' B.npy -o none.npy
check multiply_inverse_on_ref 1 multiply L.npy:inv B.npy -o none.npy --on ref
check multiply_inverse_energy 2 multiply L.npy:inv B.npy -o none.npy --for energy
check multiply_inverse_solver 2 multiply L.npy:inv B.npy -o none.npy --solver hu-shing
check multiply_order_through_group 2 multiply B.npy:T '(L.npy D.npy):inv' -o none.npy --order '((A1 A2) A3)'
holds multiply_nothing_written test ! -e none.npy

check plan_structure 0 plan f64:80x80x5:lower.T.inv,N
check plan_structure_group 0 plan 'f64:5x80x5x80x1:(T,N).inv,T,N=1,1,1,4' --json
check plan_structure_words 0 plan 80x80:upper.inv 80x5
check plan_structure_dot 0 plan f64:30x40x50x40x30:N,N,T,T=1,2,2,1 --dot
holds plan_structure_svg run plan f64:30x40x50x40x30:N,N,T,T=1,2,2,1 --svg plan.svg
check plan_structure_bands 0 plan "f64:80x80x80x80x5:banded(2,3),tridiagonal,lower.banded(1,0).inv,N" --json
check plan_structure_band_words 0 plan "80x80:banded(1,2).inv" 80x5
check plan_structure_band_bad 2 plan "f64:80x80x5:banded(1,N"
check plan_structure_files 0 plan L.npy:lower:inv B.npy
check multiply_trait_misspelt 2 multiply L.npy:lower:ivn B.npy -o none.npy
check plan_structure_bad 2 plan f64:80x80x5:lower.inverse,N
check plan_structure_shape 2 plan f64:80x70x5:lower,N
# What is said to be definite is so among the random factors of measurements too.
for dtype in f32 c128; do
  holds bench_definite_$dtype run bench "$dtype:40x40x40x3:spd.inv,N,N" --seconds 0 --on blas
done
holds report_definite run report f64:40x40x3:spd.inv,N --measure --seconds 0 -o definite.html

run plan 40x40x40x40:spd.inv,N,N --memory-limit 1 --on blas >said/limit 2>&1
holds plan_structure_limit grep -q '^mmchain plan: --memory-limit: the plan with structure needs [0-9]* bytes' said/limit
check plan_structure_half 2 plan f16:6x6x7:inv,N
# What is generated is what the chain says of it, and can be solved with.
for dtype in f32 f64 c64 c128; do
  for kind in lower upper.unit diagonal symmetric hermitian spd 'spd.banded(1,2)' 'banded(2,1)' orthogonal permutation identity symmetric.hermitian; do
    name=$dtype.${kind//[^a-z.0-9]/_}
    holds generate_$name run generate "$dtype:6x6x6@2:$kind,N" -o $name
    holds multiply_generated_$name run multiply "$name/A1.npy:${kind//./:}:inv" $name/A2.npy -o R.npy --check
  done
done
run generate 'f64:3x2x2:zero,diagonal.unit' -o zeros >said/generated
says generate_zero zeros/A1.npy "f8 (3, 2) 0 0 0 0 0 0"
says generate_unit zeros/A2.npy "f8 (2, 2) 1 0 0 1"
