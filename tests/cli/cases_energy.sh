# cases_energy.sh: plans for energy, and `mmchain tune --for energy`. Sourced by run.sh.
#
# Exact where the store says what everything takes, whatever machine this is.

wisdom() { environment=("MMCHAIN_WISDOM=$1"); }

# ---- bad usage -----------------------------------------------------------------------------------

check energy_slowdown_below 2 plan 6x4x5x3 --for energy --max-slowdown 0.9
check energy_slowdown_word 2 plan 6x4x5x3 --for energy --max-slowdown fast
check energy_slowdown_nan 2 plan 6x4x5x3 --for energy --max-slowdown nan
check energy_slowdown_time 2 plan 6x4x5x3 --for time --max-slowdown 1.1
check energy_slowdown_flops 2 multiply A.npy B.npy:T -o R.npy --max-slowdown 1.1
check energy_fuse 2 plan 6x4x5x3 --for energy --fuse exact
check energy_bench_objective 2 bench 6x4x5x3 --for flops
check energy_bench_slowdown 2 bench 6x4x5x3 --max-slowdown 1.1
check energy_tune_range 2 tune --range 8 --for energy --on ref
check energy_tune_meter_time 2 tune --calibrate --meter none
check energy_tune_no_meter 1 tune --calibrate --for energy --meter none --on ref

if ! has sqlite; then
  echo "skipped: plans for energy: built without SQLite"
  return
fi

# ---- where nothing is known ----------------------------------------------------------------------

check energy_plan_nothing 0 plan 6x4x5x3 --for energy --on ref
check energy_plan_nothing_json 0 plan 6x4x5x3 --for energy --on ref --max-slowdown 1.1 --json
holds energy_plan_nothing_valid is_json said/energy_plan_nothing_json.stdout
check energy_plan_one 0 plan 10x30 --for energy --on ref --json

# ---- where everything is -------------------------------------------------------------------------

# (A1 A2) A3 takes 2 ms and 20 J; A1 (A2 A3) 2.5 ms and 10 J, or 5 ms and 8 J by its recipes. What
# the model says of both products as one call is longer.
wisdom "$work/energy_here.db"
run tune --calibrate --on ref 2>said/energy_tune
run wisdom export | grep '^fingerprint .*"f64" "native"$' >energy_fingerprint.txt
store() {
  {
    echo 'mmchain wisdom 1'
    cat energy_fingerprint.txt
    cat
  } >energy.txt
  echo "end $(grep -cE '^(fact|product)' energy.txt)" >>energy.txt
}
store <<'TEXT'
product 4 5 3 N N energy "n:1,2" 0.0025 0.01 0.001 4 5 1600 "measured" 1700000000
product 4 5 3 N N time "whole" 0.001 0.01 0.001 5 5 5000 "measured" 1700000000
product 6 4 3 N N energy "m:2,4" 0.0025 0.01 0.0015 4 5 1600 "measured" 1700000000
product 6 4 3 N N time "whole" 0.0015 0.01 0.0015 5 5 3333 "measured" 1700000000
product 6 4 5 N N energy "whole" 0.001 0.01 0.001 10 10 10000 "measured" 1700000000
product 6 4 5 N N time "whole" 0.001 0.01 0.001 10 10 10000 "measured" 1700000000
product 6 5 3 N N energy "whole" 0.001 0.01 0.001 10 10 10000 "measured" 1700000000
product 6 5 3 N N time "whole" 0.001 0.01 0.001 10 10 10000 "measured" 1700000000
fact "bytes_per_s" 1000000000 0 1700000000
fact "energy_model_error" 0.125 0 1700000000
fact "flops_per_s" 10000 0 1700000000
fact "half_k" 0 0 1700000000
fact "half_mn" 0 0 1700000000
fact "joules_per_byte" 1e-09 0 1700000000
fact "joules_per_flop" 2e-09 0 1700000000
fact "launch_s" 1e-06 0 1700000000
fact "model_error" 0.125 0 1700000000
fact "overlap" 0 0 1700000000
fact "static_w" 16 0 1700000000
TEXT
wisdom "$work/energy.db"
check energy_import 0 wisdom import energy.txt
check energy_plan 0 plan 6x4x5x3 --for energy --on ref
check energy_plan_json 0 plan 6x4x5x3 --for energy --on ref --json
holds energy_plan_valid is_json said/energy_plan_json.stdout
check energy_plan_bound 0 plan 6x4x5x3 --for energy --on ref --max-slowdown 1.3
check energy_plan_tight 0 plan 6x4x5x3 --for energy --on ref --max-slowdown 1.2
check energy_plan_left 0 plan 6x4x5x3 --for energy --on ref --solver left-to-right
check energy_plan_model 0 plan 60x40x50x30 --for energy --on ref
check energy_plan_faithful 0 plan 6x4x5x3 --for energy --on ref --precision faithful
check energy_plan_dot 0 plan 6x4x5x3 --for energy --on ref --dot
check energy_plan_for_time 0 plan 6x4x5x3 --for time --on ref

# A store of before energy was measured.
store <<'TEXT'
product 4 5 3 N N time "whole" 0.001 0.01 0.001 - - - "measured" 1700000000
product 6 4 3 N N time "whole" 0.0015 0.01 0.0015 - - - "measured" 1700000000
product 6 4 5 N N time "whole" 0.001 0.01 0.001 - - - "measured" 1700000000
product 6 5 3 N N time "n:1,2" 0.001 0.01 0.002 - - - "measured" 1700000000
TEXT
wisdom "$work/energy_old.db"
check energy_import_old 0 wisdom import energy.txt
check energy_plan_old 0 plan 6x4x5x3 --for energy --on ref
wisdom "$work/energy.db"

make_npy E1.npy '<f8' 6x4
make_npy E2.npy '<f8' 4x5
make_npy E3.npy '<f8' 5x3
run multiply E1.npy E2.npy E3.npy -o E.npy --for energy --on ref --explain --check \
  --meter replay:steady 2>said/energy_multiply
verdict energy_multiply_status "$([ $? = 0 ] || cat said/energy_multiply)"
holds energy_multiply grep -qE '^predicted 8 J, took [-+.0-9e]+ J$' said/energy_multiply
run bench 6x4x5x3 --on ref --for energy --max-slowdown 1.3 --seconds 0 --json >said/energy_bench
holds energy_bench python3 - said/energy_bench <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert [line["predicted_joules"] for line in lines] == [None, None, 10], lines
assert lines[2]["predicted_s"] == 0.0025, lines
PYTHON

# ---- tuned ---------------------------------------------------------------------------------------

# A recording of 200 W: joules are 200 times the seconds, and what is fastest takes fewest.
printf '3 4 6\n' >set.txt
run tune --set set.txt --for energy --on ref --meter replay:steady --json >said/energy_tuned 2>said/energy_tuned.stderr
verdict energy_tuned_status "$([ $? = 0 ] || cat said/energy_tuned.stderr)"
holds energy_tuned python3 - said/energy_tuned <<'PYTHON'
import json, sys
(line,) = [json.loads(line) for line in open(sys.argv[1])]
assert line["recipe"] == "whole" and line["gain"] == 1, line
assert line["joules"] == line["plain_joules"] > 0, line
PYTHON
run tune --set set.txt --for energy --on ref --meter replay:steady 2>said/energy_again >/dev/null
holds energy_tuned_again grep -qx 'mmchain tune: 0 measurements, 1 of 1 product decided' said/energy_again
run plan 3x4x6 --for energy --on ref --json >said/energy_tuned.json
holds energy_tuned_plan grep -q '"joules_source": "measured"' said/energy_tuned.json
environment=()
