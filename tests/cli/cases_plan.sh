# cases_plan.sh: the command itself, and `mmchain plan`. Sourced by run.sh.

# ---- mmchain -------------------------------------------------------------------------------------

check version 0 --version
check version_more 2 --version extra
check help 0 --help
check no_command 2
check bad_command 2 plam
check bad_command_far 2 xyz
check help_of_nothing 2 help multply
check help_misspelt 2 hlep
verdict help_word "$(run help | diff - <(run --help))"
verdict help_command "$(run help plan | diff - <(run plan --help))"
verdict version_letter "$(run -V | diff - <(run --version))"
check plan_misspelt_option 2 plan 10x30 --slover table
for command in plan multiply generate bench info order report tune wisdom; do
  check help_$command 0 $command --help
done

# ---- plan: what it prints ------------------------------------------------------------------------

check plan_clrs 0 plan $clrs --on ref
check plan_clrs_json 0 plan $clrs --on ref --json
holds plan_clrs_json_valid is_json said/plan_clrs_json.stdout
check plan_clrs_dot 0 plan $clrs --on ref --dot
check plan_figure 0 plan $figure --on ref
check plan_figure_json 0 plan $figure --on ref --json
holds plan_figure_json_valid is_json said/plan_figure_json.stdout
check plan_factors 0 plan 10x30 30x5 5x60 --on ref
check plan_factors_quoted 0 plan '10x30 30x5  5x60' --on ref
check plan_factors_typed 0 plan f32:10x30 30x5:T 5x60:N --on ref --json
check plan_dims_apart 0 plan 10 30 5 60 --on ref
check plan_ops 0 plan c64:10x30x5x60:NTH --on ref
check plan_complex_json 0 plan c64:10x30x5x60 --on ref --json
check plan_one 0 plan 10x30 --on ref
check plan_one_json 0 plan 10x30 --on ref --json
holds plan_one_json_valid is_json said/plan_one_json.stdout
check plan_zero_dim 0 plan 10x0x5x60 --on ref
check plan_huge_json 0 plan 4611686018427387904x2x3 --on ref --json
holds plan_huge_json_valid is_json said/plan_huge_json.stdout
check plan_batch 0 plan f32:16x4x16x16@1000:NTN --on ref
check plan_batch_json 0 plan f32:16x4x16x16@1000 --on ref --json
holds plan_batch_json_valid is_json said/plan_batch_json.stdout
check plan_batch_limit 0 plan f32:16x4x16x16@1000 --on ref --memory-limit 64K
check plan_batch_factors 0 plan 10x30@7 30x5@7 5x60 --on ref --json
check plan_shared 0 plan f64:135x651x77x34@32:nnN --on ref
check plan_shared_left 0 plan f64:3x80x90x90x70@4:Ntnn --on ref --solver left-to-right
check plan_shared_many 0 plan f64:150x150x150x150x150x150x150x150x150x150x150x150@2:nnnnnnnnnnN --on ref --solver hu-shing
check plan_shared_whole 0 plan f64:500x500x500x100x300@32:nnNN --on ref
check plan_shared_parts 0 plan f64:20x50x60x100x30@3200:nnNN --on ref
check plan_shared_json 0 plan f64:135x651x77x34@32:nnN --on ref --json
holds plan_shared_json_valid is_json said/plan_shared_json.stdout
check plan_power 0 plan f64:64x64^1000@10:T --on ref
check plan_power_json 0 plan f32:64x64^40 --on ref --json
holds plan_power_json_valid is_json said/plan_power_json.stdout
check plan_power_dot 0 plan f64:8x9x9^3x8x9x9^3x8=1,2,5,1,2,5 --on ref --dot
check plan_power_limit 0 plan 200x200^15 --on ref --memory-limit 640K
check plan_power_bad 2 plan 64x65^3
check plan_repeats_bad 2 plan 64x64x64=1,3
check plan_batch_none 0 plan 10x30x5@0 --on ref
check plan_batch_differs 2 plan 10x30@7 30x5@8
check plan_batch_huge 2 plan 4611686018427387904x4611686018427387904x4611686018427387904@4611686018427387904 --on ref
for solver in auto hu-shing table brute; do
  check plan_solver_$solver 0 plan $clrs --on ref --solver $solver --for flops
done
check plan_left_to_right 0 plan $clrs --on ref --solver left-to-right
check plan_limit 0 plan 1000x30x5x1000x10 --on ref --memory-limit 40K
check plan_limit_fits 0 plan 1000x30x5x1000x10 --on ref --memory-limit 41K
check plan_limit_none_needed 0 plan 100x30x5x100x10 --on ref --memory-limit 0
check plan_limit_kib 0 plan 1000x30x5x1000x10 --on ref --memory-limit 39KiB

printf '# the textbook chain\n\n  %s  # with a comment\n' $clrs >line
input=line
check plan_standard_input 0 plan - --on ref
printf '10x30x5\n5x7x8\n' >line
input=line
check plan_two_lines 2 plan -
printf '10x30x5\0x9\n' >line
input=line
check plan_nul 2 plan -
check plan_no_line 2 plan -

check plan_files 0 plan A.npy B.npy:T v.npy --on ref
check plan_files_mismatch 2 plan A.npy B.npy

# ---- plan: pictures ------------------------------------------------------------------------------

check plan_svg 0 plan $clrs --svg tree.svg
holds plan_svg_whole sh -c 'head -1 tree.svg | grep -q "<?xml" && tail -1 tree.svg | grep -q "</svg>"'
check plan_svg_and_json 0 plan 10x30x5 --svg tree2.svg --json --on ref
holds plan_svg_and_json_whole test -s tree2.svg
check plan_svg_no_chain 2 plan --svg absent.svg
absent plan_svg_no_chain_left absent.svg
check plan_svg_unwritable 2 plan $clrs --svg no/such/directory/tree.svg
check plan_svg_directory 2 plan $clrs --svg said
ln -s A.npy link.svg
check plan_svg_onto_factor 2 plan A.npy B.npy:T --svg link.svg
check plan_svg_matrix 2 plan $clrs --svg tree.npy
temporaries plan_svg_temporaries .

# ---- plan: bad input -----------------------------------------------------------------------------

check plan_nothing 2 plan
check plan_negative 2 plan 10x-5x60
check plan_negative_first 2 plan -- -10x5x60
check plan_negative_option 2 plan -10x5x60
check plan_absurd 2 plan 10x4611686018427387905x60
check plan_absurd_digits 2 plan 10x99999999999999999999999999x60
check plan_not_number 2 plan 10xfivex60
check plan_fraction 2 plan 10x5.5x60
check plan_one_dim 2 plan 10
check plan_two_dims_apart 0 plan 10 30 --on ref
check plan_negative_apart 2 plan 10 30 -- -5
check plan_trailing 2 plan 10x30x5x
check plan_dtype 2 plan i128:10x30x5
check plan_f16 0 plan f16:10x30x5x60 --on ref
check plan_bf16 0 plan bf16:10x30x5x60 --json --on ref
check plan_bad_ops 2 plan 10x30x5:NX
check plan_few_ops 2 plan 10x30x5:N
check plan_mismatch 2 plan 10x30 31x5 5x60
check plan_mixed_dtypes 2 plan f32:10x30 f64:30x5
check plan_long_factor 2 plan 10x30 30x5x7
check plan_overflow 2 plan 4611686018427387904x4611686018427387904x4611686018427387904
check plan_missing_file 2 plan A.npy missing.npy
check plan_bad_solver 2 plan $clrs --solver foo
check plan_brute_long 2 plan 1x2x3x4x5x6x7x8x9x10x11x12x13x14 --solver brute
check plan_bad_device 2 plan $clrs --on gpu
environment=(MMCHAIN_MODULE_DIR=/nonexistent)
run plan $clrs --on cuda >/dev/null 2>said/absent
verdict plan_absent_device_status "$([ $? = 1 ] || echo "expected exit status 1")"
environment=()
holds plan_absent_device_message grep -q "^mmchain plan: --on: 'cuda' is not here: " said/absent
# A BLAS that is asked for and cannot be had is not replaced by plain loops, but where none is built in.
environment=(MMCHAIN_BLAS=/nowhere/libopenblas.so)
needs blas check plan_absent_blas 1 plan $clrs
environment=(MMCHAIN_BLAS=none)
needs blas check plan_no_blas 0 plan 300x400x500
environment=()
# Cards that are not here: what the plan for them says does not depend on this machine.
environment=(MMCHAIN_MODULE_DIR=/nonexistent)
check plan_cards 0 plan f32:16384x16384x16384 --on cuda:all --ranks 2
check plan_cards_json 0 plan f32:8192x9000x512x20000x300:NTNH --on cuda:all --ranks 3 --json
holds plan_cards_json_valid is_json said/plan_cards_json.stdout
check plan_cards_parts 0 plan f32:9000x9000x9000x9000x9000 --order '((A1 A2) (A3 A4))' --on cuda:all --ranks 2
check plan_cards_small 0 plan $clrs --on cuda:0,1 --ranks 2
check plan_cards_integers 1 plan i32:100x100x100 --on cuda:all --ranks 2
check plan_cards_inverse 1 plan f64:100x100x100:lower.inv,N --on cuda:all --ranks 2
check plan_cards_bad_list 2 plan $clrs --on cuda:0,
check plan_cards_bad_ranks 2 plan $clrs --on cuda:all --ranks 65
check plan_ranks_alone 2 plan $clrs --on ref --ranks 2
environment=()
check plan_bad_objective 2 plan $clrs --for joules
check plan_bad_limit 2 plan $clrs --memory-limit 12Q
check plan_negative_limit 2 plan $clrs --memory-limit -5
check plan_absurd_limit 2 plan $clrs --memory-limit 9999999TiB
needs blas check plan_small_limit 2 plan 1000x300x50x1000x100 --memory-limit 100
check plan_bad_option 2 plan $clrs --color
check plan_bad_letter 2 plan $clrs -x
check plan_missing_value 2 plan $clrs --solver
check plan_value_given 2 plan $clrs --json=yes
check plan_json_and_dot 2 plan $clrs --json --dot
check plan_control_characters 2 plan $clrs --solver $'a\nb'

# ---- standard output -----------------------------------------------------------------------------

if [ -c /dev/full ]; then
  run plan $clrs >/dev/full 2>said/full
  verdict plan_full_status "$([ $? = 1 ] || echo "expected exit status 1")"
  holds plan_full_message grep -qx 'mmchain plan: cannot write standard output: No space left on device' said/full
fi
run plan $clrs 2>said/closed >&-
verdict plan_closed_status "$([ $? = 1 ] || echo "expected exit status 1")"
holds plan_closed_message grep -q '^mmchain plan: cannot write standard output: ' said/closed

# Plans for several processes need none of them.
check plan_ranks 0 plan f64:3000x3022x78x1598x3 --on scalapack --ranks 4
check plan_ranks_json 0 plan c64:300x302x78x159x3 --on scalapack --ranks 6 --all-ranks --json
check plan_ranks_words 0 plan 64x500x64x500x64 --on scalapack --ranks 16 --all-ranks --for words
check plan_ranks_memory 2 plan 3000x3000x3000 --on scalapack --ranks 2 --memory-limit 1M
check plan_ranks_none 2 plan 30x30x30 --ranks 4
check plan_ranks_many 2 plan 30x30x30 --on scalapack --ranks 65537
check plan_ranks_integers 2 plan i64:30x30x30 --on scalapack --ranks 2
check plan_ranks_listed 2 plan 30x30x30 --on cuda:0,1 --ranks 3
check plan_ranks_batch 2 plan f64:30x30x30@4 --on scalapack --ranks 2
check plan_ranks_tolerance 2 plan 30x30x30 --on scalapack --ranks 2 --tolerance 1e-3
check plan_ranks_picture 2 plan 30x30x30 --on scalapack --ranks 2 --dot
