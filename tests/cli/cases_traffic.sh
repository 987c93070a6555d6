# cases_traffic.sh: `mmchain plan --for traffic`. Sourced by run.sh after cases_multiply.sh.

# The fusion table of the TEE-ACM2 poster needs 616 where it prints 544.
fusion=936x1008x552x368x1016x616x616
six_chains=(8000x10000x12000x14000x16000x18000x20000 20000x18000x16000x14000x12000x10000x8000
  10000x20000x15000x9000x9000x22000x21000
  8000x9000x10000x11000x12000x13000x14000x15000x16000x17000x18000x19000x20000
  20000x19000x18000x17000x16000x15000x14000x13000x12000x11000x10000x9000x8000
  20000x16000x17000x10000x16000x19000x9000x24000x16000x16000x12000x8000x10000)

# ---- the plan ------------------------------------------------------------------------------------

for fuse in none poster exact joint; do
  check traffic_$fuse 0 plan $fusion --for traffic --on ref --fuse $fuse
  check traffic_${fuse}_json 0 plan $fusion --for traffic --on ref --fuse $fuse --json
  holds traffic_${fuse}_json_valid is_json said/traffic_${fuse}_json.stdout
done
check traffic_dot 0 plan $fusion --for traffic --on ref --dot
check traffic_joint_order 0 plan 60x4x9x90x7 --for traffic --on ref --fuse joint --on-chip 64
check traffic_exact_order 0 plan 60x4x9x90x7 --for traffic --on ref --on-chip 64
check traffic_left_to_right 0 plan $clrs --for traffic --on ref --on-chip 64 --solver left-to-right
check traffic_zero_dim 0 plan 10x0x5x60 --for traffic --on ref
check traffic_one 0 plan 10x30 --for traffic --on ref --json
holds traffic_one_valid is_json said/traffic_one.stdout
check traffic_huge 0 plan 4611686018427387904x2x3 --for traffic --on ref --on-chip 1 --json
holds traffic_huge_valid is_json said/traffic_huge.stdout
check traffic_limit 0 plan 1000x30x5x1000x10 --for traffic --on ref --memory-limit 40K

# ---- the poster's table --------------------------------------------------------------------------

check traffic_table_poster 0 plan $fusion --for traffic --fuse poster --on-chip 65536 --table
check traffic_table_exact 0 plan $fusion --for traffic --table
check traffic_table_json 0 plan $fusion --for traffic --fuse poster --table --json
holds traffic_table_json_valid is_json said/traffic_table_json.stdout
check traffic_table_dims_apart 0 plan 30 35 15 5 --for traffic --on-chip 64 --table
check traffic_table_one 0 plan 10x30 --for traffic --table --json
check traffic_table_six 0 plan "${six_chains[@]}" --for traffic --table
check traffic_table_six_json 0 plan "${six_chains[@]}" --for traffic --fuse joint --table --json
holds traffic_table_six_json_valid python3 -c '
import json, sys
chains = [json.loads(line) for line in open(sys.argv[1])]
assert len(chains) == 6
for chain in chains:
    assert chain["op_dm_fuse_words"] <= chain["op_count_words"] <= chain["in_order_words"]' said/traffic_table_six_json.stdout

# ---- fused in the cost only ----------------------------------------------------------------------

check traffic_multiply 0 multiply clrs/A*.npy -o R.npy --for traffic --check --explain --on ref
check traffic_multiply_json 0 multiply clrs/A*.npy -o R.npy --for traffic --json --on ref
holds traffic_multiply_json_valid is_json said/traffic_multiply_json.stdout

# ---- bad input -----------------------------------------------------------------------------------

check traffic_bad_fuse 2 plan $clrs --for traffic --fuse both
check traffic_fuse_for_flops 2 plan $clrs --fuse exact
check traffic_tile 0 plan 512x512x512 --for traffic --tile 128x256 --on ref --json
check traffic_tile_text 0 plan 512x512x512 --for traffic --tile 128x256 --on ref
check traffic_tile_table 0 plan $fusion --for traffic --fuse poster --tile 216x296 --table
check traffic_tile_for_flops 2 plan $clrs --tile 8x8
check traffic_tile_joint 2 plan $clrs --for traffic --fuse joint --tile 8x8
check traffic_tile_large 2 plan $clrs --for traffic --on-chip 64 --tile 8x9
check traffic_tile_zero 2 plan $clrs --for traffic --tile 0x8
check traffic_tile_one 2 plan $clrs --for traffic --tile 8
check traffic_on_chip_for_flops 2 plan $clrs --on-chip 64
check traffic_on_chip_zero 2 plan $clrs --for traffic --on-chip 0
check traffic_on_chip_negative 2 plan $clrs --for traffic --on-chip -5
check traffic_on_chip_bytes 2 plan $clrs --for traffic --on-chip 64K
check traffic_on_chip_absurd 2 plan $clrs --for traffic --on-chip 4611686018427387905
check traffic_table_for_flops 2 plan $clrs --table
check traffic_table_dot 2 plan $clrs --for traffic --table --dot
check traffic_table_svg 2 plan $clrs --for traffic --table --svg x.svg
check traffic_table_nothing 2 plan --for traffic --table
check traffic_table_bad_chain 2 plan $clrs 3x-4 --for traffic --table
check traffic_joint_solver 2 plan $clrs --for traffic --fuse joint --solver table
check traffic_joint_long 2 plan "$(python3 -c 'print("x".join(["7"] * 202))')" --for traffic --fuse joint
check traffic_joint_limit 2 plan $clrs --for traffic --fuse joint --memory-limit 100
check traffic_overflow 2 plan 4611686018427387904x8x4611686018427387904 --for traffic --on-chip 1
check traffic_multiply_bad_objective 2 multiply clrs/A*.npy -o R.npy --for joules
