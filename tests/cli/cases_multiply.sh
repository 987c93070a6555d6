# cases_multiply.sh: `mmchain generate`, `mmchain multiply`, and `mmchain bench`, with their energy.
# Sourced by run.sh.

# ---- generate ------------------------------------------------------------------------------------

check generate_clrs 0 generate $clrs -o clrs --seed 7
check generate_again 0 generate $clrs -o clrs_again --seed 7
check generate_other_seed 0 generate $clrs -o clrs_other --seed 8
holds generate_same_seed diff -r clrs clrs_again
holds generate_seeds_differ sh -c '! cmp -s clrs/A1.npy clrs_other/A1.npy'
holds generate_numbers python3 "$here/check_generate.py" clrs/A2.npy 7 1 35 15
check generate_bf16 2 generate bf16:3x4 -o x
check generate_ten 0 generate 2x2x2x2x2x2x2x2x2x2x2 -o ten
check generate_slash 0 generate f32:3x4 -o slash/
check generate_no_directory 2 generate $clrs
check generate_empty_directory 2 generate $clrs -o ''
check generate_standard_output 2 generate $clrs -o -
check generate_no_chain 2 generate -o x
check generate_parent_missing 2 generate $clrs -o no/such/directory
check generate_not_directory 2 generate $clrs -o A.npy
check generate_bad_seed 2 generate $clrs -o x --seed 1.5
check generate_negative_seed 2 generate $clrs -o x --seed -1
check generate_absurd 1 generate 4000000000x4000000000x5 -o x
absent generate_left x

# ---- multiply: good input ------------------------------------------------------------------------

check multiply_clrs 0 multiply clrs/A*.npy -o R.npy --check
holds multiply_clrs_shape sh -c 'head -c 128 R.npy | grep -q "(30, 25)"'
# Other programs' endings are no names of .npy files.
refused() { # refused OPTION NAME COMMAND...: with status 2 and the endings that are written, whichever are here
  local option=$1 name=$2 status
  shift 2
  run "$@" 2>said/refused
  status=$?
  [ $status = 2 ] && [ ! -e "$name" ] && [ "$(wc -l <said/refused)" = 1 ] &&
    grep -q "^mmchain $1: $option: expected a name that ends with \.npy[ ,].*or \.mtx, got '$name'\$" said/refused
}
holds multiply_csv refused -o R.csv multiply clrs/A1.npy clrs/A2.npy -o R.csv
holds multiply_capital refused -o R.npy.GZ multiply clrs/A1.npy clrs/A2.npy -o R.npy.GZ
holds multiply_scaled_csv refused --scaled E.txt multiply clrs/A1.npy clrs/A2.npy -o R.npy --scaled E.txt
holds multiply_page refused -o R.html multiply clrs/A1.npy clrs/A2.npy -o R.html
check multiply_capital_ending 0 multiply clrs/A1.npy clrs/A2.npy -o R.MTX
holds multiply_capital_ending_rules grep -q '^%%MatrixMarket matrix array real general$' R.MTX
check multiply_capital_factor 0 multiply R.MTX:T R.MTX -o R.npy --check
check multiply_capital_op 2 multiply clrs/A1.NPY:Q -o R.npy
check multiply_npy_member 2 multiply clrs/A1.npy clrs/A2.npy -o R.npy:foo
python3 - <<'END' # arrays that are called as ops are
import zipfile
for name, members in (("ops.npz", "ATN"), ("one.npz", "T")):
    with zipfile.ZipFile(name, "w") as file:
        for member, path in zip(members, ("clrs/A2.npy", "clrs/A1.npy", "clrs/A2.npy")[len(members) == 1:]):
            file.write(path, member + ".npy")
END
run multiply clrs/A1.npy clrs/A2.npy -o R.npy --no-sync
needs npz check multiply_array_t 0 multiply ops.npz:T ops.npz:N -o member.npy --no-sync
needs npz holds multiply_array_t_bits cmp R.npy member.npy
needs npz check multiply_array_t_only 2 multiply one.npz:T clrs/A2.npy -o member.npy
needs npz check multiply_array_t_itself 0 multiply one.npz:T:N clrs/A2.npy -o member.npy --no-sync
needs npz holds multiply_array_t_itself_bits cmp R.npy member.npy
needs npz check multiply_array_t_turned 0 multiply ops.npz:T:T clrs/A1.npy -o member.npy --check --no-sync
holds multiply_unknown_ending run multiply clrs/A1.npy clrs/A2.npy -o R.out
check multiply_json 0 multiply --for flops clrs/A*.npy -o R.npy --check --json --on ref
holds multiply_json_valid is_json said/multiply_json.stdout
check multiply_json_unchecked 0 multiply --for flops clrs/A1.npy clrs/A2.npy -o R.npy --json --on ref
holds multiply_json_unchecked_valid is_json said/multiply_json_unchecked.stdout
check multiply_explain 0 multiply --for flops clrs/A*.npy -o R.npy --explain --on ref
check multiply_left_to_right 0 multiply clrs/A*.npy -o L.npy --check --solver left-to-right
needs libxsmm check multiply_order 0 multiply --for flops clrs/A*.npy -o L.npy --check --explain --order '(A1 ((A2 (A3 A4)) (A5 A6)))'
needs libxsmm holds multiply_order_said grep -q '^order  *(A1 ((A2 (A3 A4)) (A5 A6)))$' said/multiply_order.stderr
check multiply_order_short 2 multiply clrs/A*.npy -o L.npy --order '(A1 (A2 (A3 A4)))'
run plan $clrs --json --on ref --order '(A1 ((A2 (A3 A4)) (A5 A6)))' >saved.json
check multiply_plan 0 multiply clrs/A*.npy -o P.npy --check --explain --plan saved.json
check multiply_plan_direct 0 multiply clrs/A*.npy -o D.npy --on ref --order '(A1 ((A2 (A3 A4)) (A5 A6)))'
holds multiply_plan_bits cmp P.npy D.npy
input=saved.json
check multiply_plan_standard_input 0 multiply clrs/A*.npy -o S.npy --plan -
holds multiply_plan_standard_input_bits cmp S.npy D.npy
check multiply_plan_dims 2 multiply clrs/A1.npy clrs/A2.npy -o L.npy --plan saved.json
sed 's/null, "kernel": "loops"/null, "kernel": "slide rule"/' saved.json >old.json
check multiply_plan_kernel 1 multiply clrs/A*.npy -o L.npy --plan old.json
head -c 700 saved.json >cut.json
check multiply_plan_cut 2 multiply clrs/A*.npy -o L.npy --plan cut.json
check multiply_plan_missing 2 multiply clrs/A*.npy -o L.npy --plan none.json
check multiply_plan_directory 2 multiply clrs/A*.npy -o L.npy --plan clrs
check multiply_plan_twice 2 multiply clrs/A*.npy -o L.npy --plan saved.json --on ref
check multiply_limit 0 multiply clrs/A*.npy -o L.npy --check --memory-limit 4K
for dtype in f32 f64 c64 c128 f16; do
  check generate_$dtype 0 generate $dtype:20x30x5x8x1x9:NTHTN -o $dtype
  check multiply_$dtype 0 multiply $dtype/A1.npy $dtype/A2.npy:T $dtype/A3.npy:H $dtype/A4.npy:T \
    $dtype/A5.npy -o $dtype/R.npy --check
  check multiply_ref_$dtype 0 multiply $dtype/A1.npy $dtype/A2.npy:T $dtype/A3.npy:H \
    $dtype/A4.npy:T $dtype/A5.npy -o $dtype/R.npy --check --on ref
done
holds generate_f16_numbers python3 "$here/check_generate.py" f16/A1.npy 1 0 20 30

# Exact: small whole numbers. Elements count 1, 2, 3 ... in each.
values() { python3 "$here/show_npy.py" "$1"; }
says() { verdict "$1" "$([ "$(values "$2")" = "$3" ] || echo "got $(values "$2"), expected $3")"; }
make_npy P.npy '<f8' 2x3
make_npy Q.npy '>f8' 3x2
make_npy F.npy '<f8' 3x2 fortran
make_npy u.npy '<f8' 2
make_npy w.npy '<f8' 3
make_npy P16.npy '>f2' 2x3
make_npy Q16.npy '<f2' 3x2
make_npy C.npy '<c8' 2x2
make_npy c.npy '<c8' 2
check multiply_two 0 multiply P.npy Q.npy -o R.npy
says multiply_two_values R.npy "f8 (2, 2) 22 28 49 64"
check multiply_two_f16 0 multiply P16.npy Q16.npy -o R.npy --check
says multiply_two_f16_values R.npy "f2 (2, 2) 22 28 49 64"
check multiply_fortran 0 multiply P.npy F.npy -o R.npy
says multiply_fortran_values R.npy "f8 (2, 2) 14 32 32 77"
check multiply_transposed 0 multiply P.npy P.npy:T -o R.npy
says multiply_transposed_values R.npy "f8 (2, 2) 14 32 32 77"
check multiply_row_first 0 multiply u.npy P.npy -o R.npy
says multiply_row_first_values R.npy "f8 (3,) 9 12 15"
check multiply_column_last 0 multiply P.npy w.npy -o R.npy
says multiply_column_last_values R.npy "f8 (2,) 14 32"
check multiply_scalar 0 multiply u.npy P.npy w.npy -o R.npy --check
says multiply_scalar_values R.npy "f8 () 78"
check multiply_inner_product 0 multiply w.npy w.npy -o R.npy
says multiply_inner_product_values R.npy "f8 () 14"
check multiply_conjugate_first 0 multiply c.npy:H C.npy -o R.npy
says multiply_conjugate_first_values R.npy "c8 (2,) 14+0j 20+0j"
check multiply_conjugate_last 0 multiply C.npy c.npy:H -o R.npy
says multiply_conjugate_last_values R.npy "c8 (2,) 10+0j 22+0j"
check multiply_one 0 multiply P.npy -o R.npy --check
says multiply_one_values R.npy "f8 (2, 3) 1 2 3 4 5 6"
check multiply_one_transposed 0 multiply P.npy:T -o R.npy --check
says multiply_one_transposed_values R.npy "f8 (3, 2) 1 4 2 5 3 6"
check multiply_one_vector 0 multiply w.npy -o R.npy
says multiply_one_vector_values R.npy "f8 (3,) 1 2 3"
check multiply_one_conjugate 0 multiply c.npy:H -o R.npy
says multiply_one_conjugate_values R.npy "c8 (2,) 1+1j 2+2j"
make_npy E.npy '<f8' 2x0
make_npy G.npy '<f8' 0x2
check multiply_empty_inside 0 multiply E.npy G.npy -o R.npy --check
says multiply_empty_inside_values R.npy "f8 (2, 2) 0 0 0 0"
check multiply_empty_result 0 multiply G.npy P.npy F.npy E.npy -o R.npy
check multiply_empty 0 multiply G.npy P.npy -o R.npy --check
says multiply_empty_values R.npy "f8 (0, 3)"
run multiply P.npy Q.npy -o - >out.npy
says multiply_standard_output out.npy "f8 (2, 2) 22 28 49 64"
run multiply P.npy - -o in.npy <Q.npy
says multiply_standard_input in.npy "f8 (2, 2) 22 28 49 64"
exec 5>gone.npy
rm gone.npy
run multiply P.npy Q.npy -o /dev/fd/5
cat /dev/fd/5 >unnamed.npy
exec 5>&-
says multiply_unnamed unnamed.npy "f8 (2, 2) 22 28 49 64"
holds multiply_unnamed_alone test ! -e "gone.npy (deleted)"
mkdir d.npy:e
check multiply_colon_in_folder 0 multiply P.npy Q.npy -o ./d.npy:e/R
ln -s R.npy link.npy
check multiply_link 0 multiply P.npy Q.npy -o link.npy
holds multiply_link_kept test -L link.npy

# Stacks and powers. W is 2x1x1x2, X a stack of three 2x2.
make_npy W.npy '<f8' 2x1x1x2
make_npy X.npy '<f8' 3x2x2
make_npy Y.npy '<f8' 2x2x2 fortran
check multiply_stack 0 multiply X.npy Q.npy:T -o R.npy --check
says multiply_stack_values R.npy "f8 (3, 2, 3) 5 11 17 11 25 39 17 39 61 23 53 83 29 67 105 35 81 127"
check multiply_broadcast 0 multiply --for flops W.npy X.npy u.npy -o R.npy --check --explain --on ref
says multiply_broadcast_values R.npy "f8 (2, 3, 1) 27 63 99 59 143 227"
check multiply_stack_fortran 0 multiply Y.npy -o R.npy
says multiply_stack_fortran_values R.npy "f8 (2, 2, 2) 1 5 3 7 2 6 4 8"
make_npy J.npy '<f8' 0x1x2x2
check multiply_no_chains 0 multiply J.npy X.npy:T -o R.npy --check
says multiply_no_chains_values R.npy "f8 (0, 3, 2, 2)"
check multiply_power 0 multiply u.npy X.npy^3 -o R.npy --check
says multiply_power_values R.npy "f8 (3, 2) 199 290 3275 3814 13775 15146"
# A stack of vectors is a matrix of formats that have no stacks.
make_npy u2.npy '<f8' 2
check multiply_vectors 0 multiply u.npy X.npy -o vectors.mtx
check multiply_vectors_read 0 multiply vectors.mtx -o R.npy
says multiply_vectors_values R.npy "f8 (3, 2) 7 10 19 22 31 34"
check multiply_numbers 0 multiply u.npy X.npy u2.npy -o numbers.mtx
check multiply_numbers_read 0 multiply numbers.mtx -o R.npy
says multiply_numbers_values R.npy "f8 (3, 1) 27 63 99"
needs matlab check multiply_vectors_matlab 0 multiply u.npy X.npy -o vectors.mat
needs matlab check multiply_vectors_matlab_read 0 multiply vectors.mat -o R.npy
needs matlab says multiply_vectors_matlab_values R.npy "f8 (3, 2) 7 10 19 22 31 34"
check multiply_power_op_behind 2 multiply X.npy^3:T -o R.npy
check multiply_power_json 0 multiply --for flops X.npy:T^4 -o R.npy --check --json --on ref
check multiply_power_limit 0 multiply X.npy^5 -o R.npy --check --memory-limit 128
check multiply_stack_limit 0 multiply --for flops X.npy X.npy:T X.npy -o L.npy --check --explain --memory-limit 64 --on ref
# Matrices beside a stack are shared by all its chains.
check generate_shared 0 generate f64:60x90x20x8@3:nnN -o shared
check multiply_shared 0 multiply --for flops shared/A*.npy -o R.npy --check --explain --on ref
# A stack whose matrices are the factors. Z is two stacks of three, all of 2x2.
make_npy Z.npy '<f8' 2x3x2x2
check multiply_each 0 multiply X.npy:each -o R.npy --check
says multiply_each_values R.npy "f8 (2, 2) 413 454 937 1030"
check multiply_each_transposed 0 multiply u.npy X.npy:T:each P.npy -o R.npy --check
says multiply_each_transposed_values R.npy "f8 (3,) 11957 16483 21009"
input=X.npy
check multiply_each_standard_input 0 multiply -:each -o R.npy --check
says multiply_each_standard_input_values R.npy "f8 (2, 2) 413 454 937 1030"
input=P.npy
check multiply_op_of_standard_input 0 multiply P.npy -:T -o R.npy
says multiply_op_of_standard_input_values R.npy "f8 (2, 2) 14 32 32 77"
input=Q.npy
check multiply_inverse_of_standard_input 2 multiply -:upper:inv P.npy -o R.npy
check multiply_each_stack 0 multiply --for flops W.npy Z.npy:each -o R.npy --check --explain --on ref
says multiply_each_stack_values R.npy "f8 (2, 2, 1, 2) 2287 2514 72667 75966 4987 5482 167383 174982"
check multiply_each_vector 2 multiply u.npy:each -o R.npy
check multiply_each_power 2 multiply X.npy:each^2 -o R.npy
rotation() { python3 "$here/rotation.py" "$@"; }
rotation make turn.npy 0.001
rotation make back.npy -0.001
check multiply_power_rotation 0 multiply --for flops turn.npy^1000 -o R.npy --check --explain --on ref
holds multiply_power_rotation_value rotation check R.npy 1 1e-12
for objective in time energy; do
  holds multiply_power_$objective run multiply turn.npy^999 back.npy^998 -o R.npy --check --for $objective
  holds multiply_power_${objective}_value rotation check R.npy 0.001 1e-12
done
check multiply_power_long 0 multiply turn.npy^100003 -o R.npy
holds multiply_power_long_value rotation check R.npy 100.003 1e-9
check multiply_repeats 0 multiply --for flops turn.npy back.npy:T turn.npy back.npy:T -o R.npy --check --explain --on ref
holds multiply_repeats_value rotation check R.npy 0.004 1e-12
make_npy big.npy '<f4' 2x2
check multiply_overflow 0 multiply big.npy^100 -o R.npy
says multiply_overflow_values R.npy "f4 (2, 2) inf inf inf inf"
make_npy bigs.npy '<f4' 3x2x2
check multiply_overflow_stack 0 multiply bigs.npy^50 -o R.npy
check multiply_overflow_check 1 multiply big.npy^100 -o none.npy --check
check multiply_overflow_of_one 1 multiply big.npy^53 -o none.npy --check # one element does
make_npy little.npy '<f4' 2x2 times 1e-23
check multiply_underflow_check 1 multiply little.npy^2 -o none.npy --check --on ref
check multiply_underflow_scaled 0 multiply little.npy^2 -o R.npy --scaled E.npy --check --on ref
make_npy least.npy '<f8' 2x2 times 1e-200
make_npy huge.npy '<f8' 2x2 times 1e300
check multiply_vanish_check 1 multiply least.npy^3 -o none.npy --check --on ref
check multiply_vanish_on_the_way 1 multiply least.npy^2 huge.npy -o none.npy --check --on ref --order '((A1 A2) A3)'
check multiply_vanish_scaled 0 multiply least.npy^3 -o R.npy --scaled E.npy --check --on ref
absent multiply_check_left none.npy
check generate_power 0 generate f64:3x3^7x4 -o power
holds bench_power run bench f64:16x16^100 f32:8x9x8x9x8=1,2,1,2 --seconds 0.01
check multiply_power_bad 2 multiply P.npy^two -o x
check multiply_power_none 2 multiply P.npy^0 -o x
check multiply_power_shape 2 multiply P.npy^2 -o x
check multiply_no_broadcast 2 multiply X.npy Y.npy -o x
check generate_batch 0 generate c64:3x4x2@5:NT -o batch
check multiply_batch 0 multiply batch/A1.npy batch/A2.npy:T -o R.npy --check
holds multiply_batch_shape sh -c 'head -c 128 R.npy | grep -q "(5, 3, 2)"'

# NaN and infinity are data.
python3 "$here/make_npy.py" N.npy '<f8' 2x2
printf '\0\0\0\0\0\0\370\177' | dd of=N.npy bs=1 seek="$(($(stat -c %s N.npy) - 8))" conv=notrunc 2>/dev/null
check multiply_nan 0 multiply N.npy P.npy -o R.npy --check
says multiply_nan_values R.npy "f8 (2, 3) 9 12 15 nan nan nan"

# ---- multiply: bad input -------------------------------------------------------------------------

rm -f R.npy
check multiply_nothing 2 multiply -o R.npy
check multiply_no_output 2 multiply P.npy Q.npy
check multiply_mismatch 2 multiply P.npy P.npy -o R.npy
check multiply_mismatch_third 2 multiply P.npy Q.npy:N Q.npy -o R.npy
check multiply_mismatch_vector 2 multiply P.npy u.npy -o R.npy
check multiply_vector_inside 2 multiply P.npy w.npy P.npy -o R.npy
check multiply_mixed_dtypes 0 multiply P.npy Q16.npy -o R.npy --check
says multiply_mixed_dtypes_values R.npy "f8 (2, 2) 22 28 49 64"
check multiply_mixed_complex 0 multiply P16.npy Q.npy C.npy -o R.npy --check
verdict plan_mixed_files "$(run plan P16.npy Q.npy C.npy | head -n 1 | diff - <(echo 'chain            c128:2x3x2x2'))"
rm R.npy
check multiply_missing 2 multiply P.npy missing.npy -o R.npy
cp P.npy pressure.npy
check multiply_misspelt 2 multiply presure.npy Q.npy -o R.npy
check multiply_misspelt_in_folder 2 multiply clrs/A1.npy clrs/A22.npy -o R.npy
check multiply_directory 2 multiply P.npy said -o R.npy
check multiply_bad_op 2 multiply P.npy Q.npy:X -o R.npy
check multiply_standard_input_empty 2 multiply - Q.npy -o R.npy
input=P.npy
check multiply_standard_input_twice 2 multiply - - -o R.npy
input=P.npy
check multiply_standard_input_plan 2 multiply - Q.npy -o R.npy --plan -
head -c 160 P.npy >cut.npy
check multiply_truncated 2 multiply P.npy cut.npy -o R.npy
head -c 50 P.npy >cut_header.npy
check multiply_truncated_header 2 multiply P.npy cut_header.npy -o R.npy
: >empty.npy
check multiply_empty_file 2 multiply empty.npy P.npy -o R.npy
echo 'this is text' >text.npy
check multiply_not_npy 2 multiply P.npy text.npy -o R.npy
make_npy I.npy '<i4' 3x2
check multiply_integers 2 multiply P.npy I.npy -o R.npy
make_npy V.npy '<V2' 3x2
check multiply_bf16 2 multiply P.npy V.npy -o R.npy
printf "\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (3, 2), }%13s\n" '' >O.npy
check multiply_objects 2 multiply P.npy O.npy -o R.npy
make_npy D.npy '<f8' 3x2x2
check multiply_stack_rows 2 multiply P.npy D.npy -o R.npy
make_npy S.npy '<f8' ''
check multiply_0d 2 multiply S.npy -o R.npy
check multiply_bad_solver 2 multiply P.npy Q.npy -o R.npy --solver foo
check multiply_bad_device 2 multiply P.npy Q.npy -o R.npy --on gpu
run generate f32:400x300x400x300 -o large >/dev/null
needs blas check multiply_small_limit 2 multiply large/A*.npy -o R.npy --memory-limit 8
check multiply_json_to_output 2 multiply P.npy Q.npy -o - --json
needs blas absent multiply_left R.npy

# ---- multiply: bad output ------------------------------------------------------------------------

cp P.npy before.npy
check multiply_onto_factor 2 multiply P.npy Q.npy -o P.npy
check multiply_onto_factor_by_name 2 multiply P.npy Q.npy -o ./P.npy
ln Q.npy hard.npy
check multiply_onto_factor_by_link 2 multiply P.npy Q.npy:N -o hard.npy
check multiply_scaled_onto_factor 2 multiply P.npy Q.npy -o R.npy --scaled P.npy
check multiply_scaled_onto_result 2 multiply P.npy Q.npy -o none.npy --scaled ./none.npy
make_npy room.npy '<f8' 40x40
too_large() { # too_large FILE: a file that may not become so large is refused, and not there
  (trap '' XFSZ; ulimit -f 4; run multiply room.npy -o "$1" 2>said/large)
  [ $? = "$2" ] && [ "$(wc -l <said/large)" = 1 ] && [ ! -e "$1" ]
}
holds multiply_too_large_npy too_large large.npy 2
needs hdf5 holds multiply_too_large_hdf5 too_large large.h5 1
needs matlab holds multiply_too_large_matlab too_large large.mat 1
needs npz check multiply_scaled_onto_member 2 multiply P.npy Q.npy -o none.npz:R --scaled none.npz:E
check multiply_scaled_format 2 multiply P.npy Q.npy -o none.npy --scaled E.mtx
absent multiply_scaled_left none.npy none.npz
make_npy u16.npy '<f2' 3
check multiply_number_format 2 multiply u16.npy u16.npy -o number.mtx
holds multiply_factor_kept cmp P.npy before.npy
mkdir -p inner onto
cp P.npy onto/A1.npy
cp Q.npy onto/A2.npy
check generate_onto_factor 2 generate ./onto/A1.npy onto/A2.npy -o onto --seed 9
holds generate_factor_kept cmp P.npy onto/A1.npy
# A link is followed, though nothing is there yet.
ln -s inner/led.npy chain.npy
check multiply_onto_link 0 multiply P.npy Q.npy -o chain.npy
holds multiply_onto_link_kept test -L chain.npy -a -s inner/led.npy
rm inner/led.npy
check multiply_scaled_onto_link 2 multiply P.npy Q.npy -o inner/led.npy --scaled chain.npy
ln -s no/such/led.npy lost.npy
check multiply_onto_lost 2 multiply P.npy Q.npy -o lost.npy
check multiply_lost 2 multiply lost.npy Q.npy -o R.npy
check multiply_unwritable 2 multiply P.npy Q.npy -o no/such/directory/R.npy
check multiply_under_file 2 multiply P.npy Q.npy -o P.npy/R.npy
check multiply_onto_directory 2 multiply P.npy Q.npy -o said
check multiply_empty_name 2 multiply P.npy Q.npy -o ''
# What prints nothing needs no standard output.
run multiply P.npy Q.npy -o R.npy 2>said/closed >&-
verdict multiply_closed "$([ $? = 0 ] || cat said/closed)"
# Nor does what is told of the work go into a file that would have the number of a closed stream.
MMCHAIN_PATIENCE_S=0 run multiply P.npy Q.npy -o silent.npy 2>&-
verdict multiply_silent "$([ $? = 0 ] || echo "expected exit status 0")"
holds multiply_silent_result cmp silent.npy R.npy
if [ -c /dev/full ]; then check multiply_full 2 multiply P.npy Q.npy -o /dev/full; fi
if [ "$(id -u)" != 0 ]; then
  mkdir locked
  chmod a-w locked
  check multiply_locked 2 multiply P.npy Q.npy -o locked/R.npy
fi
run generate f64:100x100x100 -o large >/dev/null
(
  trap '' XFSZ
  ulimit -f 8
  run multiply large/A1.npy large/A2.npy -o large/R.npy
) 2>said/limit
verdict multiply_no_space "$([ $? = 2 ] || echo "expected exit status 2: $(cat said/limit)")"
absent multiply_no_space_left large/R.npy
temporaries multiply_no_space_temporaries large
(
  trap '' XFSZ
  ulimit -f 8
  run generate f64:100x100 -o roomless
) 2>/dev/null
verdict generate_no_space "$([ $? = 2 ] || echo "expected exit status 2")"
absent generate_no_space_left roomless
echo old >old.npy
(
  trap '' XFSZ
  ulimit -f 8
  run multiply large/A1.npy large/A2.npy -o old.npy
) 2>/dev/null
verdict multiply_old_kept "$([ "$(cat old.npy)" = old ] || echo "old.npy was changed")"

# ---- bench ---------------------------------------------------------------------------------------

check bench_nothing 2 bench
check bench_one_factor 2 bench 10x30
check bench_bad_chain 2 bench $clrs 10xx30
check bench_bad_seconds 2 bench $clrs --seconds soon
check bench_semiring 2 bench f32~max-plus:10x10x10
run bench 10x10x10 --dtype bool --on ref --seconds 0 --json >said/bench_bool
holds bench_bool grep -q '"bool:10x10x10".*"ours"' said/bench_bool
check bench_second_wrong 2 bench 3x4x5 4x5 --seconds 0
check bench_too_large 1 bench 3000000000x3000000000x5
check bench_no_suite 2 bench --suite missing.txt
printf '# two chains\nclrs: 30 35 15 5 10 20 25 # 15125\n\nf32:4x5x6x7\n' >suite
printf 'clrs: 30 35 15\n\nbad: 30 x5\n' >bad_suite
check bench_bad_suite 2 bench --suite bad_suite --seconds 0
run bench --suite suite 2x3 3x4 --on ref --seconds 0 --json >bench.json 2>said/bench
holds bench_status test ! -s said/bench
holds bench_json_valid json_lines bench.json
holds bench_fields python3 "$here/check_bench.py" bench.json
run bench f32:4x5x6@100 --on ref --seconds 0 --dtype f64 >bench.txt
holds bench_batch grep -q '^chain   f64:4x5x6@100$' bench.txt
holds bench_bf16 run bench bf16:4x5x6x7 --on ref --seconds 0
run bench --suite - --seconds 0 --on ref <suite >bench.txt
holds bench_text grep -q '^ours is the flop-optimal plan here$' bench.txt

# ---- energy --------------------------------------------------------------------------------------

# 200 W in ticks of 100 ms, for 30 s; then the same with an end too soon, and with a bad line.
head -n 20 steady >short
sed '7s/ .*/ nan/' steady >bad_recording
energy() { python3 "$here/check_energy.py" "$@"; }
run multiply clrs/A1.npy clrs/A2.npy -o R.npy --on ref --meter replay:steady --json >energy.json \
  2>energy.err
holds multiply_energy_json energy energy.json replay 200
holds multiply_energy_line grep -qE '^energy: [0-9.e-]+ J at [0-9.]+ W, idle [0-9.]+ W \(replay\)$' \
  energy.err
holds multiply_energy_details grep -q \
  '"sm_mhz_median": 1500, .*"celsius_max": 50, .*"throttle": "power cap"' energy.json
run bench 30x35x15 --on ref --seconds 0 --meter none --json >energy.json
holds bench_energy_json energy energy.json none 0 'no meter is asked for'
# Each of its rows is measured for two seconds.
if [ -n "${MMCHAIN_TEST_LONG:-}" ]; then
  run bench 30x35x15 --on ref --seconds 0 --meter replay:steady >energy.txt
  holds bench_energy_columns grep -qE '^ours .* [0-9.e-]+ +[0-9.]+$' energy.txt
  holds bench_energy_idle grep -qE '^joules by replay, [0-9.]+ W when idle$' energy.txt
fi
run multiply clrs/A1.npy clrs/A2.npy -o R.npy --on ref --meter replay:short --json >energy.json \
  2>energy.err
holds multiply_energy_ended energy energy.json replay 200 'the recording has ended after 1.9 s'
run multiply clrs/A1.npy clrs/A2.npy -o R.npy --energy --json >energy.json 2>energy.err
holds multiply_energy_here energy energy.json any any
check multiply_energy_none 0 multiply clrs/A1.npy clrs/A2.npy -o R.npy --on ref --meter none
run bench 30x35x15 --on ref --seconds 0 --energy --meter none >energy.txt
holds bench_energy_none grep -q '^no joules: no meter is asked for$' energy.txt
check multiply_meter_unknown 2 multiply clrs/A1.npy clrs/A2.npy -o M.npy --meter gpu
check multiply_meter_nothing 2 multiply clrs/A1.npy clrs/A2.npy -o M.npy --meter ''
check multiply_meter_missing 2 multiply clrs/A1.npy clrs/A2.npy -o M.npy --meter replay:missing
check multiply_meter_bad 2 multiply clrs/A1.npy clrs/A2.npy -o M.npy --meter replay:bad_recording
check multiply_meter_binary 2 multiply clrs/A1.npy clrs/A2.npy -o M.npy --meter replay:clrs/A1.npy
check bench_meter_bad 2 bench 2x3x4 --meter replay:bad_recording
absent multiply_meter_left M.npy
# GPUs of 150 W that the tests make up.
if [ -n "${MMC_FAKE_NVML:-}" ]; then
  environment=("LD_LIBRARY_PATH=$MMC_FAKE_NVML" CUDA_VISIBLE_DEVICES=1)
  run multiply clrs/A1.npy clrs/A2.npy -o R.npy --on ref --meter cuda:0 --json >energy.json \
    2>energy.err
  holds multiply_energy_nvml energy energy.json nvml 150
  check multiply_energy_no_gpu 0 multiply clrs/A1.npy clrs/A2.npy -o R.npy --on ref --meter nvml:1
  environment=()
fi

# The same bits from both devices, in the order that is given.
run generate f32:40x50x60x7 -o same --no-sync >said/generated
run generate f32:9x9 -o square --no-sync >said/generated
check multiply_reproducible 0 multiply same/A{1,2,3}.npy -o same-blas.npy --reproducible --order '((A1 A2) A3)' --check --no-sync
run multiply same/A{1,2,3}.npy -o same-ref.npy --precision reproducible --on ref --order '((A1 A2) A3)' --no-sync >said/same
verdict multiply_reproducible_bits "$(cmp same-blas.npy same-ref.npy 2>&1)"
run multiply same/A{1,2,3}.npy -o same-ref.npy --reproducible --precision faithful --on ref --order '((A1 A2) A3)' --no-sync >said/same
verdict multiply_reproducible_and_faithful_bits "$(cmp same-blas.npy same-ref.npy 2>&1)"
run plan f32:700x16000x700 --reproducible --precision faithful >said/whole
verdict plan_by_whole_numbers "$(grep -q 'whole numbers' said/whole || cat said/whole)"

# What is least when nothing is said: seconds, but an order by the sizes alone for reproducible bits.
run multiply same/A{1,2,3}.npy -o same-ref.npy --json --no-sync | grep -o '"objective": "[a-z]*"' >said/default
run multiply same/A{1,2,3}.npy -o same-ref.npy --json --no-sync --reproducible | grep -o '"objective": "[a-z]*"' >>said/default
verdict multiply_default_objective "$(printf '"objective": "%s"\n' time flops | diff - said/default)"
check multiply_reproducible_and_fast 2 multiply same/A{1,2,3}.npy -o same.npy --reproducible --precision fast
check multiply_reproducible_inverse 2 multiply square/A1.npy:inv square/A1.npy -o same.npy --reproducible

# A tolerance, which a saved plan keeps.
check plan_tolerance 0 plan f64:300x200x100x10 --tolerance 1e-10 --on ref
check plan_tolerance_missed 0 plan f32:300x200x100x10 --tolerance 1e-9 --on ref
check plan_tolerance_json 0 plan f64:300x200x10 --tolerance 1e-10 --on ref --json
check plan_tolerance_and_fast 2 plan f64:300x200x10 --tolerance 1e-10 --precision fast
check plan_tolerance_and_reproducible 2 plan f64:300x200x10 --tolerance 1e-10 --reproducible
check plan_tolerance_of_two 2 plan f64:300x200x10 --tolerance 2
check plan_tolerance_not_a_number 2 plan f64:300x200x10 --tolerance nan
check plan_tolerance_inverse 2 plan 9x9x9:inv,N --tolerance 1e-9
check multiply_tolerance 0 multiply same/A{1,2,3}.npy -o within.npy --tolerance 1e-3 --on ref --for flops --check --no-sync
run plan f32:40x50x60x7 --tolerance 1e-3 --on ref --json >within.json
run multiply same/A{1,2,3}.npy -o within2.npy --plan within.json --json --no-sync | grep -o '"precision": "[^"]*"' >said/within
verdict multiply_tolerance_of_plan "$(echo '"precision": "0.001"' | diff - said/within; cmp within.npy within2.npy 2>&1)"

# ---- multiply: sparse factors --------------------------------------------------------------------

printf '%%%%MatrixMarket matrix coordinate real general\n%% a comment\n4 3 4\n1 1 1\n2 3 2\n4 2 -1.5\n4 2 0.5\n' >S.mtx
printf '%%%%MatrixMarket matrix coordinate real symmetric\n4 4 3\n1 1 2\n2 1 1\n4 3 5\n' >Y.mtx
printf '%%%%MatrixMarket matrix coordinate real general\n4 3 1\n5 1 1\n' >outside.mtx
run generate f64:3x2 -o sparse_dense >sparse_dense.said
check multiply_sparse 0 multiply S.mtx:T Y.mtx S.mtx -o R.mtx --check
holds multiply_sparse_written diff R.mtx - <<'END'
%%MatrixMarket matrix coordinate real general
3 3 3
1 1 2
1 3 2
3 1 2
END
# Products that leave the range are refused, and rows that do so beside others are not.
for size in 1e-200 1e200; do
  printf '%%%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 3%s\n1 2 2%s\n2 2 1%s\n' \
    "${size#1}" "${size#1}" "${size#1}" >"sparse$size.mtx"
done
printf '%%%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 3\n1 2 2\n2 2 1e-200\n' >sparse_row.mtx
check multiply_sparse_vanish 1 multiply sparse1e-200.mtx sparse1e-200.mtx -o none.mtx --check
check multiply_sparse_overflow 1 multiply sparse1e200.mtx sparse1e200.mtx -o none.mtx --check
check multiply_sparse_small_row 0 multiply sparse_row.mtx sparse_row.mtx -o small.mtx --check
absent multiply_sparse_check_left none.mtx
needs npz check multiply_sparse_npz 0 multiply S.mtx:T Y.mtx S.mtx -o R.npz --check --for time
needs npz check multiply_sparse_again 0 multiply R.npz -o again.mtx
needs npz holds multiply_sparse_again_same cmp R.mtx again.mtx
check multiply_sparse_dense 0 multiply S.mtx sparse_dense/A1.npy -o R.npy --check
check multiply_sparse_power 0 multiply 'Y.mtx^5' -o P.npy --check --solver left-to-right
run multiply S.mtx S.mtx:T -o R.mtx --check --json >sparse.json 2>sparse.said
holds multiply_sparse_json_valid is_json sparse.json
holds multiply_sparse_json_says grep -q '"order": "(A1 A2)".*"multiplications": 3,.*"residual": ' sparse.json
check multiply_sparse_as_dense 0 multiply Y.mtx:symmetric S.mtx -o R.npy --check
needs npz check multiply_sparse_npz_as_dense 0 multiply R.npz S.mtx:T -o D.npy --memory-limit 1K --check
check multiply_sparse_shapes 2 multiply S.mtx S.mtx -o R.mtx
check multiply_sparse_slowdown 2 multiply S.mtx S.mtx:T -o R.mtx --max-slowdown 1.1
check multiply_sparse_outside 2 multiply outside.mtx S.mtx:T -o R.mtx
check multiply_sparse_same_file 2 multiply S.mtx S.mtx:T -o S.mtx
check multiply_sparse_inside 2 multiply S.mtx sparse_dense/A1.npy:lower -o R.npy
printf '%%%%MatrixMarket matrix coordinate real general\n4 2 5\n1 1 1\n2 2 2\n4 2 -1.5\n4 1 0.5\n3 1 3\n' >X.mtx
run generate f64:4x1 -o sparse_right >sparse_right.said
run multiply X.mtx:T X.mtx -o XX.npy
needs blas check multiply_sparse_group 0 multiply '(X.mtx:T X.mtx):inv' X.mtx:T sparse_right/A1.npy -o g.npy
run multiply XX.npy:inv X.mtx:T sparse_right/A1.npy -o h.npy
needs blas holds multiply_sparse_group_same cmp g.npy h.npy
needs blas check multiply_sparse_group_check 0 multiply '(X.mtx:T X.mtx):inv' X.mtx:T sparse_right/A1.npy -o g.npy --check
check multiply_sparse_group_twice 0 multiply '((X.mtx:T X.mtx):inv):inv' X.mtx:T -o R.npy
needs blas check multiply_sparse_group_within 0 multiply '((X.mtx:T X.mtx):inv XX.npy):inv' X.mtx:T -o R.npy
needs blas check multiply_sparse_inverse 0 multiply '(Y.mtx):inv' S.mtx -o R.npy
needs npz check multiply_sparse_inverse_singular 2 multiply '(R.npz):inv' S.mtx:T -o D.npy
check multiply_sparse_group_shape 2 multiply '(X.mtx):inv' X.mtx -o R.npy
check multiply_sparse_group_vector 2 multiply '(X.mtx:T w.npy):inv' X.mtx:T -o R.npy
check multiply_sparse_group_bad 2 multiply '(X.mtx:T X.mtx):T' X.mtx:T -o R.npy
check multiply_sparse_stack 2 multiply X.mtx:T X.npy -o R.npy
check multiply_sparse_no_output 2 multiply S.mtx S.mtx:T
check multiply_sparse_cuda 2 multiply S.mtx S.mtx:T -o R.mtx --on nowhere
