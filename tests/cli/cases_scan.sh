# cases_scan.sh: `mmchain scan`. Sourced by run.sh.

check scan_generate 0 generate f64:5x5@12 -o stack
check scan_prefixes 0 scan stack/A1.npy -o P.npy --check --explain --on ref
check scan_blas 0 scan stack/A1.npy -o Q.npy --check
check scan_reverse 0 scan stack/A1.npy -o R.npy --reverse --check
check scan_exclusive 0 scan stack/A1.npy -o E.npy --exclusive --check
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

# ---- mistakes ------------------------------------------------------------------------------------

check scan_no_file 2 scan -o P.npy
check scan_two_files 2 scan T.npy T.npy -o P.npy
check scan_missing 2 scan no_such.npy -o P.npy
check scan_no_output 2 scan T.npy
check scan_same_file 2 scan T.npy -o T.npy
check scan_not_square 2 scan wide.npy -o X.npy
check scan_no_stack 2 scan flat.npy -o X.npy
check scan_initial_dtype 2 scan T.npy -o X.npy --initial I4.npy
check scan_initial_size 2 scan T.npy -o X.npy --initial I3.npy
check scan_device 2 scan T.npy -o X.npy --on abacus
check scan_json_to_output 2 scan T.npy -o - --json
absent scan_left X.npy
