# cases_experiment.sh: `mmchain bench --experiment tee-acm2`. Sourced by run.sh.

# ---- bad usage -----------------------------------------------------------------------------------

check experiment_unknown 2 bench --experiment tee-acm3
check experiment_nothing 2 bench --experiment
check experiment_help 0 bench --experiment help
check experiment_chain 2 bench --experiment tee-acm2 $clrs
check experiment_suite 2 bench --experiment tee-acm2 --suite FILE
check experiment_part 2 bench --experiment tee-acm2 --only figures
check experiment_family 2 bench --experiment tee-acm2 --on ref --family fast
check experiment_sizes 2 bench --experiment tee-acm2 --sizes 16,0
check experiment_sizes_words 2 bench --experiment tee-acm2 --sizes 16,x
check experiment_window 2 bench --experiment tee-acm2 --window -1
check experiment_device 2 bench --experiment tee-acm2 --on abacus
check experiment_meter 2 bench --experiment tee-acm2 --on ref --meter gpu --quick
check experiment_directory 2 bench --experiment tee-acm2 -o missing/there --on ref
check experiment_alone 2 bench $clrs --quick
check experiment_alone_output 2 bench $clrs -o there
absent experiment_left there missing

# ---- without a meter -----------------------------------------------------------------------------

experiment() { # experiment NAME OPTION...: --quick, its lines and figures in a directory of that name
  local name=$1
  shift
  run bench --experiment tee-acm2 --on ref --quick -o "$name" --json "$@" \
    >"said/$name" 2>"said/$name.stderr"
  verdict "${name}_status" "$([ $? = 0 ] || cat "said/$name.stderr")"
  holds "${name}_kept" cmp "said/$name" "$name/results.jsonl"
}
suite=$here/../../bench/chains/tee-acm2.txt
experiment experiment_plain --meter none --window 0
holds experiment_plain_lines python3 "$here/check_experiment.py" experiment_plain "$suite" none
holds experiment_plain_told grep -qE '^mmchain bench: 70 trials on .*, about [0-9]+ s at most$' \
  said/experiment_plain.stderr
run bench --experiment tee-acm2 --on ref --only single --sizes 8,9 --family plain --window 0 \
  --meter none >said/experiment_text 2>/dev/null
holds experiment_text [ "$(grep -c '^single .* plain .* loops ' said/experiment_text)" = 2 ]
holds experiment_text_why grep -qx 'no joules: no meter is asked for' said/experiment_text
run bench --experiment tee-acm2 --only fused --quick --window 0 --meter none --json \
  >said/experiment_cpu 2>/dev/null
holds experiment_cpu [ "$(grep -c '"family": "plain".*"measured": true' said/experiment_cpu)" = 4 ]

# ---- with a meter --------------------------------------------------------------------------------

# 200 W: joules are 200 times the seconds.
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "%.2f %.3f 200\n", i / 100, 2 * i }' >long
experiment experiment_metered --meter replay:long --only chains --window 0.05
holds experiment_metered_lines python3 "$here/check_experiment.py" experiment_metered "$suite" 200
# What was measured is kept when it is interrupted.
env "${environment[@]}" timeout --foreground -s INT 2 "${wrapper[@]}" "$mmchain" bench --experiment tee-acm2 --on ref \
  --meter replay:long --only single --family plain --sizes 8,9,10 --window 0.4 -o stopped --json \
  >said/experiment_stopped 2>said/experiment_stopped.stderr
holds experiment_stopped_said grep -qx 'mmchain bench: interrupted' said/experiment_stopped.stderr
holds experiment_stopped_kept cmp said/experiment_stopped stopped/results.jsonl

holds experiment_figures python3 "$here/check_experiment.py" --figures experiment_metered 18 19 20 21
holds experiment_figures_plain python3 "$here/check_experiment.py" --figures experiment_plain 18 19
holds experiment_no_figure grep -qx \
  'mmchain bench: no figure 15: hardware counters are not readable here' said/experiment_plain.stderr
