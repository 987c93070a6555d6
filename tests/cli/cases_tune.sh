# cases_tune.sh: `mmchain tune`, and plans for time. Sourced by run.sh.
#
# What is measured differs from run to run, so nothing of it is compared; what must hold of it does.

wisdom() { environment=("MMCHAIN_WISDOM=$1"); }

# ---- bad usage -----------------------------------------------------------------------------------

check tune_nothing 2 tune
check tune_only_options 2 tune --on ref --json
check tune_argument 2 tune 10x20x30
check tune_bad_chain 2 tune --chain 10x
check tune_semiring 2 tune --chain f64~max-plus:3x4x5
check tune_one_factor 2 tune --chain 10x20
check tune_bad_range 2 tune --range 0
check tune_bad_dtype 2 tune --range 8 --dtype f8
check tune_integers 2 tune --range 8 --dtype i64
check tune_bad_ops 2 tune --range 8 --ops NX
check tune_bad_device 2 tune --calibrate --on gpu
check tune_bad_precision 2 tune --calibrate --precision rough
check tune_bad_budget 2 tune --calibrate --budget 0
check tune_bad_objective 2 tune --calibrate --for joules
check tune_no_set 2 tune --set missing.txt
: >empty.txt
check tune_empty_set 2 tune --set empty.txt
printf '# sizes\n\n3 4 5 NT f32 # fine\n3 4\n' >set.txt
check tune_set_few 2 tune --set set.txt
printf '3 4 5 NT f32 6\n' >set.txt
check tune_set_many 2 tune --set set.txt
printf '3 4 5 NN i64\n' >set.txt
check tune_set_integers 2 tune --set set.txt
printf '3 4 five\n' >set.txt
check tune_set_letter 2 tune --set set.txt
printf '3 0 5\n' >set.txt
check tune_set_zero 2 tune --set set.txt
printf '3 4 4611686018427387905\n' >set.txt
check tune_set_large 2 tune --set set.txt
printf '3 4 5\n3 4 5 N\n' >set.txt
check tune_set_ops 2 tune --set set.txt
printf '3 4 5 NN f8\n' >set.txt
check tune_set_dtype 2 tune --set set.txt

if ! has sqlite; then
  echo "skipped: mmchain tune: built without SQLite"
  return
fi

wisdom ""
check tune_no_store 1 tune --chain 3x4x5 --on ref

# ---- what it says --------------------------------------------------------------------------------

# tuned NAME COUNT CALLS ARGUMENT...: tunes so many products and times so many calls, and tells each
# as a JSON object.
tuned() {
  local name=$1 count=$2 calls=$3
  shift 3
  run tune "$@" --on ref --json >said/tuned 2>said/tuned.stderr </dev/null
  verdict "${name}_status" "$([ $? = 0 ] || cat said/tuned.stderr)"
  holds "$name" python3 "$here/check_tune.py" said/tuned "$count" "$calls"
}

wisdom "$work/tune/one.db"
tuned tune_chain 4 2 --chain f64:6x4x5x3:NTN
run tune --chain f64:6x4x5x3:NTN --on ref 2>said/again >said/again.stdout
holds tune_again grep -qx 'mmchain tune: 0 measurements, 4 of 4 products decided, 2 calls timed' said/again
holds tune_again_call grep -qE ' [num]?s \(.*  call NTN 6x4x5:0\*1 6x5x3:3\*2 @1$' said/again.stdout
holds tune_again_told grep -q '^f64 ' said/again.stdout
printf '# sizes\n3 4 5\n3 4 5 NT f32 # transposed\n3 4 5 NN f64\n' >set.txt
tuned tune_set 2 0 --set set.txt
printf '3 4 6\n' >line
run tune --set - --on ref --dtype f32 --ops TN <line >/dev/null 2>said/input
holds tune_standard_input grep -q ' 1 of 1 product decided$' said/input
run tune --range 12 --on ref >said/range 2>said/range.stderr
holds tune_range \
  grep -qE '^mmchain tune: [0-9]+ measurements(, [0-9]+ sizes? of the range cut in two)?$' said/range.stderr
holds tune_range_silent test ! -s said/range
run tune --calibrate --on ref 2>said/calibrate
holds tune_calibrate grep -qx 'mmchain tune: 0 measurements' said/calibrate
run tune --chain 20x30x40 --on ref --budget 0.000001 2>said/budget >/dev/null
holds tune_budget grep -q '0 of 1 product decided; the budget is spent: run it again to go on$' said/budget

# ---- plans for time ------------------------------------------------------------------------------

# sources STORE EXPECTED CHAIN: where a plan for time has its prices from. Of a chain that may run as
# one call that is the call's measurement or the model, whatever was measured of its products.
sources() {
  wisdom "$1"
  run plan "$3" --for time --on ref --json >said/plan.json
  python3 - said/plan.json "$2" <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1]))
assert plan["objective"] == "time", plan
assert {step["source"] for step in plan["steps"]} == {sys.argv[2]}, plan
total = sum(step["predicted_s"] for step in plan["steps"])
assert abs(plan["predicted_seconds"] - total) <= 1e-5 * total, plan
assert plan["predicted_seconds"] <= plan["fewest_multiplications_seconds"], plan
PYTHON
}
holds plan_time_measured sources "$work/tune/one.db" measured f64:6x4x5:NT
holds plan_time_measured_call sources "$work/tune/one.db" measured f64:6x4x5x3:NTN
holds plan_time_array sources "$work/tune/one.db" array f64:11x11x11
holds plan_time_model sources "$work/tune/one.db" model f64:60x50x40x30
holds plan_time_nothing sources "$work/tune/none.db" "model, not calibrated" f64:6x4x5x3:NTN
wisdom "$work/tune/one.db"
run wisdom export >tuned.txt
sed '/^fingerprint/s/"ref" "/"ref" "not /' tuned.txt >foreign.txt
wisdom "$work/tune/foreign.db"
check tune_foreign_import 0 wisdom import foreign.txt
holds plan_time_foreign sources "$work/tune/foreign.db" "model, not calibrated" f64:6x4x5x3:NTN
wisdom "$work/tune/moved.db"
check tune_moved_import 0 wisdom import tuned.txt
run plan f64:6x4x5x3:NTN --for time --on ref --json >said/moved.json
wisdom "$work/tune/one.db"
run plan f64:6x4x5x3:NTN --for time --on ref --json >said/original.json
holds plan_time_moved cmp said/moved.json said/original.json
run plan f64:6x4x5x3:NTN --for time --on ref >said/plan.txt
holds plan_time_text grep -qE '^predicted +[0-9.]+ (us|ms)' said/plan.txt
head -c 5000 /dev/urandom >"$work/tune/broken.db"
wisdom "$work/tune/broken.db"
run plan 6x4x5x3 --for time --on ref >said/broken.txt 2>said/broken.stderr
verdict plan_time_broken_status "$([ $? = 0 ] || echo "expected exit status 0")"
holds plan_time_broken grep -q '^wisdom           none: ' said/broken.txt
wisdom ""
check plan_time_no_store 0 plan 6x4x5x3 --for time --on ref
check plan_time_one 0 plan 10x30 --for time --on ref --json
check plan_time_fuse 2 plan 6x4x5x3 --for time --fuse exact
make_npy T1.npy '<f8' 6x4
make_npy T2.npy '<f8' 4x5
run multiply T1.npy T2.npy -o T3.npy --for time --on ref --explain --check 2>said/multiply
verdict multiply_time_status "$([ $? = 0 ] || cat said/multiply)"
holds multiply_time grep -qE '^predicted [-+.0-9e]+ s, took [-+.0-9e]+ s$' said/multiply

# ---- interrupted and killed ----------------------------------------------------------------------

wisdom "$work/tune/stopped.db"
# In the foreground, which interrupts reach, and once: timeout interrupts its whole group otherwise.
env "${environment[@]}" timeout --foreground --preserve-status -s INT 1 "${wrapper[@]}" "$mmchain" \
  tune --range 4096 --on ref >/dev/null 2>said/stopped
verdict tune_interrupted_status "$([ $? = 130 ] || echo "expected exit status 130")"
holds tune_interrupted grep -q '; what was measured is kept: run it again to go on$' said/stopped

# Killed some times at any moment, and each time the store is whole and holds no less than before.
wisdom "$work/tune/killed.db"
kill_often() {
  local before=0 now i kills=8
  [ -z "${MMCHAIN_TEST_LONG:-}" ] || kills=20
  for i in $(seq "$kills"); do
    timeout -s KILL "0.$((5 + i * 7 % 40))" env "${environment[@]}" "$mmchain" tune \
      --chain "f64:24x20x28x$((16 + i))" --on ref >/dev/null 2>&1
    run wisdom show --json >said/killed.json || return 1
    now=$(python3 "$here/check_tune.py" --store said/killed.json "$work/tune/killed.db") || return 1
    [ "$now" -ge "$before" ] || { echo "$before units, then $now"; return 1; }
    before=$now
  done
  [ "$before" -gt 0 ]
}
holds tune_killed kill_often
run tune --chain f64:24x20x28x17 --on ref >/dev/null 2>said/after
verdict tune_after_killed_status "$([ $? = 0 ] || cat said/after)"
run tune --chain f64:24x20x28x17 --on ref >/dev/null 2>said/after
holds tune_after_killed grep -qx 'mmchain tune: 0 measurements, 4 of 4 products decided, 2 calls timed' said/after

# Two at once on one store.
wisdom "$work/tune/two.db"
two_at_once() {
  run tune --chain f64:6x4x5x3 --on ref >/dev/null 2>said/left &
  run tune --chain f64:5x4x6x3 --on ref >/dev/null 2>said/right || return 1
  wait $! || return 1
  holds_nothing=$(grep -L '4 of 4 products decided' said/left said/right)
  [ -z "$holds_nothing" ]
}
holds tune_two_at_once two_at_once
environment=()
