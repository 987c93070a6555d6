# cases_order.sh: `mmchain order` and `mmchain info`. Sourced by run.sh.

# ---- order: what it prints -----------------------------------------------------------------------

# Table m and s of Nishida, Ito and Nakano (2011), Figure 1.
check order_figure_tables 0 order $figure --tables --kernel portable
check order_figure_tables_json 0 order $figure --tables --kernel portable --json
holds order_figure_tables_json_valid is_json said/order_figure_tables_json.stdout
holds order_figure_entries python3 "$here/check_tables.py" said/order_figure_tables_json.stdout
check order_clrs 0 order $clrs
check order_clrs_json 0 order $clrs --json
holds order_clrs_json_valid is_json said/order_clrs_json.stdout
check order_arguments 0 order 30 35 15,5 10x20 25
check order_solver_table 0 order $figure --solver table --json --threads 1 --kernel portable
for solver in auto hu-shing brute left-to-right; do
  check order_solver_$solver 0 order $figure --solver $solver --json --threads 1
done
check order_one 0 order 7x9
check order_zero 0 order 2x0x3
check order_zeros_json 0 order 2x0x3x0 --json --kernel portable
check order_one_tables 0 order 7x9 --tables --kernel portable
check order_huge_json 0 order 4611686018427387904x4611686018427387904x5 --json --kernel portable
holds order_huge_json_valid is_json said/order_huge_json.stdout
printf '# dims\n30, 35 15\t5 # five\n10x20\n25' >dims.txt
check order_file 0 order --dims dims.txt
input=dims.txt
check order_standard_input 0 order --dims -
check order_hundred 0 order --dims <(seq 1 101)

# ---- order: trees --------------------------------------------------------------------------------

check order_tree_json 0 order $clrs -o tree.json
verdict order_tree_json_content "$(printf '[[1, [2, 3]], [[4, 5], 6]]\n' | diff - tree.json)"
check order_tree_binary 0 order $clrs -o tree.bin
# Products of factors 0 to 5: T6 = A1 A2, T7 = A0 T6, T8 = A3 A4, T9 = T8 A5, T10 = T7 T9.
holds order_tree_binary_content python3 -c '
import struct
want = b"MMCORDER" + struct.pack("<IIQ10I", 1, 0, 6, 1, 2, 0, 6, 3, 4, 8, 5, 7, 9)
assert open("tree.bin", "rb").read() == want'
run order $clrs -o - >tree_out.bin
holds order_tree_standard_output cmp tree.bin tree_out.bin
check order_hundred_tree 0 order --dims <(seq 1 101) -o hundred.json
holds order_hundred_tree_valid is_json hundred.json

# ---- order: bad input ----------------------------------------------------------------------------

check order_nothing 2 order
check order_one_dim 2 order 30
check order_negative 2 order 30 35 -- -15
check order_negative_option 2 order 30 -35 15
check order_word 2 order 30x35xten
check order_missing_dim 2 order 30x35xx5
check order_missing_first 2 order ,30,35
check order_fraction 2 order 30x3.5
check order_absurd 2 order 30x4611686018427387905
check order_absurd_digits 2 order 30x99999999999999999999999999999999
check order_overflow 2 order 4611686018427387904x4611686018427387904x4611686018427387904
check order_missing_file 2 order --dims missing.txt
check order_misspelt_file 2 order --dims dimz.txt
check order_file_as_dims 2 order dims.txt
check order_file_and_dims 2 order --dims dims.txt 5
printf '30 35\n15 5\n10 2O 25\n' >letters.txt
check order_file_letter 2 order --dims letters.txt
printf '30, 35,\n15 x # the last is missing\n' >missing_last.txt
check order_file_missing_last 2 order --dims missing_last.txt
printf '30, 35,\n15 ,\n# in between\n5\n' >commas.txt
check order_file_commas 0 order --dims commas.txt
printf '30 35\n\n  -5\n' >negative.txt
check order_file_negative 2 order --dims negative.txt
printf '30 35\n 0 4\n' >zero.txt
check order_file_zero 0 order --dims zero.txt
printf '30\0 35' >nul.txt
check order_file_nul 2 order --dims nul.txt
printf '# nothing\n' >nothing.txt
check order_file_nothing 2 order --dims nothing.txt
echo 30 >one.txt
check order_file_one 2 order --dims one.txt
check order_bad_solver 2 order $clrs --solver foo
check order_bad_device 2 order $clrs --on gpu
check order_device_without_orders 1 order $clrs --on ref
# Which kernels there are depends on the processor.
run order $clrs --kernel foo 2>said/kernel
verdict order_bad_kernel_status "$([ $? = 2 ] || echo "expected exit status 2")"
holds order_bad_kernel_message grep -q "^mmchain order: --kernel: .*'foo'.*auto.*portable" said/kernel
check order_kernel_solver 2 order $clrs --kernel portable --solver hu-shing
check order_bad_threads 2 order $clrs --threads two
check order_many_threads 2 order $clrs --threads 1000000
check order_bad_threads_per_block 2 order $clrs --threads-per-block 512
check order_threads_per_block_cpu 2 order $clrs --threads-per-block 64
check order_blocks_per_entry_cpu 2 order $clrs --blocks-per-entry 4
check order_tables_solver 2 order $clrs --tables --solver hu-shing
check order_tables_long 2 order --dims <(seq 1 42) --tables
check order_brute_long 2 order --dims <(seq 1 20) --solver brute
check order_profile_cpu 2 order $clrs --profile p.csv
check order_output_json_taken 2 order $clrs -o - --json
check order_unwritable 2 order $clrs -o no/such/directory/tree.bin
check order_onto_dims 2 order --dims dims.txt -o dims.txt
if [ -c /dev/full ]; then check order_full 2 order $clrs -o /dev/full; fi
absent order_left p.csv p.svg
temporaries order_temporaries .

# ---- order: Ctrl-C -------------------------------------------------------------------------------

# Minutes of work, interrupted after a second; SIGINT may be ignored where tests run.
seq 1 12000 >long.txt
echo old >interrupted.bin
env --default-signal=INT timeout --preserve-status -s INT 1 \
  "$mmchain" order --dims long.txt --solver table --kernel portable --threads 1 -o interrupted.bin \
  2>said/interrupt >said/interrupt_out
got=$?
verdict order_interrupt_status "$([ $got = 130 ] || echo "exit status $got, expected 130")"
holds order_interrupt_silent test ! -s said/interrupt_out
verdict order_interrupt_output "$([ "$(cat interrupted.bin)" = old ] || echo "the output was changed")"
mkfifo pipe
sleep 60 >pipe &
holder=$!
env --default-signal=INT timeout --preserve-status -s INT 1 \
  "$mmchain" order --dims pipe >said/interrupt_out 2>&1
got=$?
kill $holder
wait $holder 2>/dev/null
verdict order_interrupt_reading "$([ $got = 130 ] || echo "exit status $got, expected 130")"
temporaries order_interrupt_temporaries .

# ---- info ----------------------------------------------------------------------------------------

run info >info.txt
holds info_status test -s info.txt
holds info_ref grep -q '^  ref      here     ' info.txt
holds info_ranks grep -Eq '^  scalapack (here     libscalapack|missing  needs)' info.txt
run info --json >info.json
holds info_json_valid is_json info.json
holds info_meters sh -c 'tr -d "\n" <info.json | grep -q "\"meters\": \[  {\"name\": \"rapl\", "'
if [ -n "${MMC_FAKE_NVML:-}" ]; then
  environment=(-u CUDA_VISIBLE_DEVICES "LD_LIBRARY_PATH=$MMC_FAKE_NVML")
  run info >info.txt
  holds info_nvml grep -q \
    '^  nvml:1   here     Fake GPU 1 at 00000000:1C:00.0: energy counter and instant power$' info.txt
  environment=("LD_LIBRARY_PATH=$MMC_FAKE_NVML" CUDA_VISIBLE_DEVICES=)
  run info >info.txt
  holds info_nvml_hidden grep -q '^  nvml     missing  there is no GPU 0: CUDA_VISIBLE_DEVICES' info.txt
  environment=()
fi
check info_argument 2 info cpu
environment=(PATH=/nonexistent)
run info >info.txt
environment=()
holds info_no_gnuplot grep -q '^  gnuplot  missing  for order --profile: install gnuplot-nox$' info.txt
