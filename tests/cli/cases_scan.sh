# cases_scan.sh: `mmchain scan`. Sourced by run.sh.

check scan_generate 0 generate f64:5x5@12 -o stack
check scan_prefixes 0 scan stack/A1.npy -o P.npy --check --explain --on ref
check scan_blas 0 scan stack/A1.npy -o Q.npy --check
input=stack/A1.npy
check scan_standard_input 0 scan - -o I.npy --on ref
holds scan_standard_input_bits cmp I.npy P.npy
check scan_reverse 0 scan stack/A1.npy -o R.npy --reverse --check
check scan_exclusive 0 scan stack/A1.npy -o E.npy --exclusive --check
make_npy little.npy '<f4' 8x2x2 times 1e-10
check scan_vanished 0 scan little.npy -o P.npy --check --json --on ref
check scan_json 0 scan stack/A1.npy -o P.npy --json --check --on ref
holds scan_json_valid is_json said/scan_json.stdout

# Exact: small whole numbers. Elements count 1, 2, 3 ... in each.
make_npy T.npy '<f8' 3x2x2
make_npy I.npy '<f8' 2x2
make_npy wide.npy '<f8' 3x2x3
make_npy flat.npy '<f8' 3x3
make_npy I4.npy '<f4' 2x2
make_npy I3.npy '<f8' 3x3
scan_says() {
  local got
  got=$(python3 "$here/show_npy.py" "$2")
  verdict "$1" "$([ "$got" = "$3" ] || echo "got $got, expected $3")"
}
check scan_whole 0 scan T.npy -o W.npy --initial I.npy --check
scan_says scan_whole_values W.npy 'f8 (3, 2, 2) 7 10 15 22 105 122 229 266 2287 2514 4987 5482'
check scan_suffixes 0 scan T.npy -o S.npy --reverse --check
scan_says scan_suffix_values S.npy 'f8 (3, 2, 2) 413 454 937 1030 111 122 151 166 9 10 11 12'
check scan_exclusive_ref 0 scan T.npy -o X.npy --exclusive --on ref --check
scan_says scan_exclusive_values X.npy 'f8 (3, 2, 2) 1 0 0 1 1 2 3 4 19 22 43 50'
rm X.npy
make_npy one.npy '<c8' 1x2x2
check scan_complex 0 scan one.npy -o C.npy --check

# Over semirings, and with exponents.
check scan_max_plus 0 scan T.npy -o M.npy --semiring max-plus --explain --on ref
scan_says scan_max_plus_values M.npy 'f8 (3, 2, 2) 1 2 3 4 9 10 11 12 21 22 23 24'
check scan_min_plus 0 scan T.npy -o M.npy --semiring min-plus --reverse
scan_says scan_min_plus_values M.npy 'f8 (3, 2, 2) 15 16 17 18 14 15 16 17 9 10 11 12'
check scan_scaled 0 scan T.npy -o S.npy --scaled N.npy --explain --on ref
scan_says scan_scaled_values S.npy 'f8 (3, 2, 2) 1 2 3 4 19 22 43 50 413 454 937 1030'
scan_says scan_scaled_exponents N.npy 'i8 (3,) 0 0 0'
check multiply_min_plus 0 multiply 'T.npy:each' -o M.npy --semiring min-plus
scan_says multiply_min_plus_values M.npy 'f8 (2, 2) 15 16 17 18'
check multiply_log 0 multiply 'I.npy^3' -o M.npy --semiring log --explain --on ref
run generate f64:6x6 -o small >said/generated
check multiply_scaled 0 multiply 'small/A1.npy^100000' -o M.npy --scaled N.npy
check scan_semiring_check 0 scan T.npy -o M.npy --semiring max-plus --reverse --exclusive --check
make_npy stacks.npy '<i4' 2x2x2x2
check scan_stacks_check 0 scan stacks.npy -o M.npy --check
scan_says scan_stacks_values M.npy 'i4 (2, 2, 2, 2) 1 2 3 4 19 22 43 50 9 10 11 12 267 286 323 346'
check scan_scaled_check 0 scan T.npy -o M.npy --scaled N.npy --check
check multiply_semiring_check 0 multiply T.npy:each -o M.npy --semiring min-plus --check
check multiply_scaled_check 0 multiply 'small/A1.npy^1000' -o M.npy --scaled N.npy --check
# Exponents are of the result beside them: where it cannot be written, they stay as they were.
if [ -c /dev/full ]; then
  cp N.npy kept.npy
  check multiply_scaled_full 2 multiply 'small/A1.npy^2000' -o /dev/full --scaled N.npy
  check scan_scaled_full 2 scan T.npy -o /dev/full --scaled N.npy
  holds scaled_full_kept cmp N.npy kept.npy
fi
check plan_semiring 0 plan 'f32~max-plus:64x64^10' --on ref
check plan_semiring_none 2 plan 'f32~max:64x64'
check plan_semiring_dtype 2 plan 'c64~log:64x64'
check plan_semiring_op 2 plan 'f32~log:4x5x6:NH'

# ---- mistakes ------------------------------------------------------------------------------------

check scan_no_file 2 scan -o P.npy
check scan_two_files 2 scan T.npy T.npy -o P.npy
check scan_missing 2 scan no_such.npy -o P.npy
input=T.npy
check scan_standard_input_twice 2 scan - --initial - -o P.npy
check scan_no_output 2 scan T.npy
check scan_same_file 2 scan T.npy -o T.npy
check scan_not_square 2 scan wide.npy -o X.npy
check scan_no_stack 2 scan flat.npy -o X.npy
check scan_initial_dtype 2 scan T.npy -o X.npy --initial I4.npy
check scan_initial_size 2 scan T.npy -o X.npy --initial I3.npy
check scan_device 2 scan T.npy -o X.npy --on abacus
check scan_semiring 2 scan T.npy -o X.npy --semiring plus
check scan_scaled_same 2 scan T.npy -o X.npy --scaled ./X.npy
needs npz check scan_scaled_member 2 scan T.npy -o X.npz:R --scaled X.npz:E
check scan_scaled_onto_input 2 scan T.npy -o X.npy --scaled T.npy
check scan_onto_initial 2 scan T.npy --initial I.npy -o I.npy
check scan_scaled_semiring 2 scan T.npy -o X.npy --scaled Y.npy --semiring log
check multiply_semiring 2 multiply T.npy:each -o X.npy --semiring max --check
check multiply_semiring_conjugated 2 multiply I.npy I.npy:H I.npy:H -o X.npy --semiring log
check multiply_semiring_traits 2 multiply I.npy I.npy:lower -o X.npy --semiring log
check multiply_scaled_reproducible 2 multiply T.npy:each -o X.npy --scaled Y.npy --reproducible --precision faithful
check multiply_scaled_traits 2 multiply I.npy:lower -o X.npy --scaled Y.npy
check multiply_unit_alone 2 multiply I.npy:unit -o X.npy
check plan_semiring_reproducible 2 plan f64~log:4x5x6 --reproducible
check multiply_scaled_traffic 2 multiply T.npy:each -o X.npy --scaled Y.npy --for traffic
check multiply_scaled_energy 2 multiply T.npy:each -o X.npy --scaled Y.npy --energy
check scan_json_to_output 2 scan T.npy -o - --json
absent scan_left X.npy
