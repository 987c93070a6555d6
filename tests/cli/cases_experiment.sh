# cases_experiment.sh: `mmchain bench --experiment` and `mmchain report DIR`. Sourced by run.sh.

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
check experiment_repeats 2 bench --experiment tee-acm2 --repeats 33
check experiment_budget 2 bench --experiment us9836434 --budget none
check experiment_falling 2 bench --experiment nishida-2011 --sizes 16,8
check experiment_alone 2 bench $clrs --quick
check experiment_alone_output 2 bench $clrs -o there
absent experiment_left there missing
mkdir empty damaged beyond foreign
printf '{"experiment": "tee-acm2", "part": "about"}\n{"part": "single",, }\n' >damaged/results.jsonl
printf '{"experiment": "tee-acm2", "part": "about", "window_s": 1e999}\n' >beyond/results.jsonl
printf '{"experiment": "another"}\n' >foreign/results.jsonl
check experiment_report_empty 2 report empty
check experiment_report_damaged 2 report damaged
check experiment_report_beyond 2 report beyond
check experiment_report_foreign 2 report foreign
mkdir mixed elsewhere
printf '{"experiment": "tee-acm2", "part": "about", "machine": "one"}\n' >mixed/results.jsonl
cp mixed/results.jsonl elsewhere
printf '{"experiment": "us9836434", "part": "example", "machine": "one"}\n' >>mixed/results.jsonl
printf '{"experiment": "tee-acm2", "part": "single", "machine": "another"}\n' >>elsewhere/results.jsonl
check experiment_report_options 2 report mixed --for energy
check experiment_report_mixed 2 report mixed
check experiment_report_elsewhere 2 report elsewhere

# ---- without a meter -----------------------------------------------------------------------------

experiment() { # experiment NAME EXPERIMENT OPTION...: --quick, its lines and page in a directory of that name
  local name=$1 which=$2
  shift 2
  run bench --experiment "$which" --quick -o "$name" --json "$@" \
    >"said/$name" 2>"said/$name.stderr"
  verdict "${name}_status" "$([ $? = 0 ] || cat "said/$name.stderr")"
  holds "${name}_kept" cmp "said/$name" "$name/results.jsonl"
  # The page is drawn again, the same, from its lines alone.
  mkdir "$name-again"
  cp "$name/results.jsonl" "$name-again"
  holds "${name}_redrawn" run report "$name-again"
  holds "${name}_same" diff -r "$name" "$name-again"
}
suite=$here/../../bench/chains/tee-acm2.txt
experiment experiment_plain tee-acm2 --on ref --meter none --window 0
holds experiment_plain_lines python3 "$here/check_experiment.py" experiment_plain "$suite" none
holds experiment_plain_page python3 "$here/check_experiment.py" --page experiment_plain figures-2-3 example table \
  figure-9 figure-10 figure-11 figure-12 figure-13 figure-14 figure-15 figure-16 figure-17 figure-18 figure-19 figure-20 \
  figure-21 creation cublas-on-chains tree fusion-tree tee-acm2-on-chains
run bench --experiment tee-acm2 --on ref --only single --sizes 8,9 --family plain --window 0 \
  --meter none >said/experiment_text 2>/dev/null
holds experiment_text [ "$(grep -c '^single .* plain .* loops ' said/experiment_text)" = 2 ]
holds experiment_text_why grep -qx 'no joules: no meter is asked for' said/experiment_text
run bench --experiment tee-acm2 --only fused --quick --window 0 --meter none --json \
  >said/experiment_cpu 2>/dev/null
run bench --experiment tee-acm2 --only chains --quick --window 0 --meter none -o copies >/dev/null 2>&1
holds experiment_copies python3 "$here/check_experiment.py" --copies copies
holds experiment_cpu [ "$(grep -c '"family": "plain".*"measured": true' said/experiment_cpu)" = 6 ]

# ---- with a meter --------------------------------------------------------------------------------

# 200 W: joules are 200 times the seconds.
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "%.2f %.3f 200\n", i / 100, 2 * i }' >long
experiment experiment_metered tee-acm2 --on ref --meter replay:long --only chains --window 0.05
holds experiment_metered_lines python3 "$here/check_experiment.py" experiment_metered "$suite" 200
# What was measured is kept when it is interrupted.
env "${environment[@]}" timeout --foreground -s INT 2 "${wrapper[@]}" "$mmchain" bench --experiment tee-acm2 --on ref \
  --meter replay:long --only single --family plain --sizes 8,9,10 --window 0.4 -o stopped --json \
  >said/experiment_stopped 2>said/experiment_stopped.stderr
holds experiment_stopped_said grep -qx 'mmchain bench: interrupted' said/experiment_stopped.stderr
holds experiment_stopped_kept cmp said/experiment_stopped stopped/results.jsonl
holds experiment_stopped_redrawn run report stopped
# So it is when it is ended: a line is kept before it is printed.
ended() { # ended SIGNAL, which comes when a product was measured
  local process tries=0
  env "${environment[@]}" "${wrapper[@]}" "$mmchain" bench --experiment tee-acm2 --on ref --meter none --only single \
    --family plain --sizes 8,9,10 --window 0.3 -o "ended_$1" --json >"said/ended_$1" 2>/dev/null &
  process=$!
  until grep -q '"part": "single"' "said/ended_$1" || [ $((tries++)) = 600 ]; do sleep 0.05; done
  kill -s "$1" "$process"
  wait "$process" 2>/dev/null
  grep -q '"part": "single"' "said/ended_$1" || return 1
  head -c "$(stat -c %s "said/ended_$1")" "ended_$1/results.jsonl" | cmp - "said/ended_$1" && run report "ended_$1"
}
holds experiment_terminated ended TERM
holds experiment_killed ended KILL
# A line that has no end was being written.
mkdir torn
sed '$ s/..$//' ended_KILL/results.jsonl | head -c -1 >torn/results.jsonl
holds experiment_torn run report torn
# So it is where the line ends within an object in it.
sed '$ s/}}$/}/' experiment_metered/results.jsonl | head -c -1 >torn/results.jsonl
holds experiment_torn_within run report torn

# A run leaves no page and no picture of an earlier one beside its lines, whether it ends or not.
again() { # again OPTION...: runs in a directory that has another experiment's
  rm -rf twice && mkdir twice && cp experiment_plain/* twice
  run bench --experiment tee-acm2 --on ref --meter none -o twice "$@" >/dev/null 2>&1
}
again_stopped() {
  rm -rf twice && mkdir twice && cp experiment_plain/* twice
  env "${environment[@]}" timeout --foreground -s INT 1 "${wrapper[@]}" "$mmchain" bench --experiment tee-acm2 --on ref \
    --meter none --only single --family plain --sizes 8,9 --window 2 -o twice >/dev/null 2>&1
  [ "$(ls twice)" = results.jsonl ]
}
again_model() { again --only model && [ "$(ls twice | tr '\n' ' ')" = 'figures-2-3.svg index.html results.jsonl ' ]; }
holds experiment_again again_model
holds experiment_again_stopped again_stopped
# The page goes elsewhere where it is asked for there.
elsewhere() {
  chmod a-w experiment_plain && run report -o drawn experiment_plain || return 1
  chmod u+w experiment_plain && rm -f drawn/results.jsonl
  diff -r experiment_plain drawn | grep -vx 'Only in experiment_plain: results.jsonl'
  [ -e drawn/index.html ]
}
holds experiment_report_into elsewhere

holds experiment_pictures python3 "$here/check_experiment.py" --pictures experiment_metered \
  figure-18 figure-19 figure-20 figure-21
holds experiment_pictures_plain python3 "$here/check_experiment.py" --pictures experiment_plain figures-2-3 figure-18 figure-19
# Another instrument's log and the counters of another program are shown where they lie beside the lines.
power_log() { # power_log FORMAT [PROGRAM]: 204 W, in lines of that format, through a program
  awk -v at="$(date +%s)" "BEGIN { for (i = 0; i < 60; i++) printf \"$1\\n\", at - 40 + i, 204 }" | "${@:2}" >single/power.csv
  run report single && grep -qE 'log and the counter differ by (1\.[5-9]|2(\.[0-4])?) %' single/index.html
}
run bench --experiment tee-acm2 --on ref --quick --only single --family plain --meter replay:long --window 2.5 --repeats 1 \
  --sizes 32 -o single >/dev/null 2>&1
holds experiment_power_log power_log '%.2f,%.1f' cat
holds experiment_power_log_picture grep -q 'the log' single/figure-9.svg
holds experiment_power_log_backwards power_log '%.2f %.1f\r' tac
holds experiment_power_log_comma power_log '%.2f;%.1f' tr . ,
holds experiment_power_log_comma_tab power_log '%.2f\t%.1f' tr . ,
power_log '%.0f000,%.1f' cat
holds experiment_power_log_milliseconds grep -q 'no two lines of the power meter' single/index.html
wrong=0
for line in 'now,202' '1764524000,5,202,5' '1764524000,12.1,202' '1764524000,nan' '1764524000'; do
  printf '# volts\n%s\n' "$line" >single/power.csv
  check experiment_power_log_wrong$((wrong += 1)) 2 report single
done
rm single/power.csv
counters() {
  for family in 'cublas sgemm:28' 'large_tile 256x128:26' 'large_tile 128x128:20' 'large_tile 256x192:9'; do
    printf '{"experiment": "tee-acm2", "part": "counters", "name": "n=8192", "chain": "f32:8x8x8", "family": "%s", "measured": true, "global_load_bytes": %se9, "l2_read_sectors": %se9}\n' \
      "${family%:*}" "${family#*:}" "${family#*:}"
  done >single/counters.jsonl
  run report single &&
    grep -q '9 GB are sent to multiprocessors with the best tile, 28 by cuBLAS: 68 % fewer' single/index.html &&
    grep -q '288 GB are read from L2, once for all blocks of a cluster, with the best tile, 896 by' single/index.html &&
    grep -q '20 GB by the smallest tile, 9 GB by the largest' single/index.html
}
holds experiment_counters counters
# Figure 14 has the theorem beside them.
tiles() {
  cp -r single tiles
  echo '{"experiment": "tee-acm2", "part": "tiles", "chain": "f32:8x8x8", "family": "large_tile 128x128", "model_load_words": 4e9}' \
    >>tiles/results.jsonl
  run report tiles && tr -d '\n' <tiles/index.html | grep -q '>16 GB</td><td[^>]*>20 GB</td><td[^>]*>640 GB<'
}
holds experiment_tiles tiles

# ---- the other publications ----------------------------------------------------------------------

experiment experiment_nishida nishida-2011
holds experiment_nishida_lines python3 "$here/check_experiment.py" --lines nishida-2011 experiment_nishida
holds experiment_nishida_page python3 "$here/check_experiment.py" --page experiment_nishida example figure-1 figure-3 figure-4 \
  figure-5 figure-7 table-i-a table-i-b table-i-c table-ii table-iii
holds experiment_nishida_pictures python3 "$here/check_experiment.py" --pictures experiment_nishida figure-3 figure-4 \
  figure-5 figure-7 table-iii
# Products of the patent's choice are tuned.
if has sqlite; then
  experiment experiment_patent us9836434 --budget 0.5
  holds experiment_patent_lines python3 "$here/check_experiment.py" --lines us9836434 experiment_patent
  holds experiment_patent_page python3 "$here/check_experiment.py" --page experiment_patent example figure-3 figures-4-5 \
    figure-6 claims-1-to-20
  holds experiment_patent_pictures python3 "$here/check_experiment.py" --pictures experiment_patent example figure-3 figure-6 \
    monotonicity
else
  echo "skipped: experiment_patent: no sqlite"
fi

# ---- verdicts by the numbers ----------------------------------------------------------------------

# judge NAME EXPERIMENT EXHIBIT VERDICT: whether the page of the lines on standard input says so of this exhibit.
judge() {
  mkdir "judged_$1"
  sed "s/^{/{\"experiment\": \"$2\", /" >"judged_$1/results.jsonl"
  run report "judged_$1" || return 1
  python3 "$here/check_experiment.py" --verdict "judged_$1" "$3" "$4"
}
about='{"part": "about", "device": "cuda"}'
product() { # product PART N PLAIN PATENT TUNED: of two samples each
  echo "{\"part\": \"$1\", \"series\": \"s\", \"m\": 8, \"k\": 8, \"n\": $2, \"cut\": \"4x8 + 4x8\", \"recipe\": \"m:4,4\"," \
    "\"plain_samples\": [$3], \"patent_samples\": [$4], \"tuned_samples\": [$5], \"given_samples\": [$4]}"
}
# The patent's method is judged by its own cuts, and not by what mmchain gains.
holds verdict_patent_fails judge patent_fails us9836434 figures-4-5 fails \
  <<<"$about"$'\n'"$(product set 8 '2, 2' '3, 3' '2, 2')"
holds verdict_patent_holds judge patent_holds us9836434 figures-4-5 holds \
  <<<"$about"$'\n'"$(product set 8 '2, 2' '1, 1' '2, 2')"
holds verdict_patent_beaten judge patent_beaten us9836434 figures-4-5 beaten \
  <<<"$about"$'\n'"$(product set 8 '2, 2' '3, 3' '1, 1')"
holds verdict_example_fails judge example_fails us9836434 example fails \
  <<<"$about"$'\n'"$(product example 8 '2.1, 2.1' '2, 2' '2, 2')"
# E falls only where no sample of the larger n is as good as the worst of the smaller.
counts='{"part": "counts", "n": 4096, "l": [2, 2049, 4096], "sum": 11453245440, "products": [4095, 4194304, 4095]}'
holds verdict_counts judge counts nishida-2011 figure-5 holds <<<"$about"$'\n'"$counts"
holds verdict_counts_ticks grep -q '>4000000<' judged_counts/figure-5.svg
holds verdict_monotone_fails judge monotone_fails us9836434 monotonicity fails \
  <<<"$about"$'\n'"$(product ladder 8 '1, 4' '1, 4' '1, 4')"$'\n'"$(product ladder 16 '3, 3' '3, 3' '3, 3')"
holds verdict_monotone_holds judge monotone_holds us9836434 monotonicity holds \
  <<<"$about"$'\n'"$(product ladder 8 '1, 1' '1, 1' '1, 1')"$'\n'"$(product ladder 16 '3, 3' '3, 3' '3, 3')"
# Claims are those that ran.
holds verdict_claims_open judge claims_open us9836434 claims-1-to-20 'not measured' \
  <<<"$about"$'\n'"$(product set 8 '2, 2' '1, 1' '1, 1')"
# Table I is judged by all settings of one n.
settings() { # settings N THREADS...: seconds rise with the threads
  for threads in "${@:2}"; do
    echo "{\"part\": \"table_1\", \"way\": \"thread\", \"measured\": true, \"n\": $1, \"threads_per_block\": $threads, \"seconds_samples\": [$threads]}"
  done
}
holds verdict_settings judge settings nishida-2011 table-i-a holds \
  <<<"$about"$'\n'"$(settings 4096 32 64 128 256)"$'\n'"$(settings 16384 64)"
every() { # every THREAD BLOCK BLOCKS: all settings at n = 4096, of so many seconds
  local kernel blocks
  for kernel in "thread $1 0" "block $2 0" "blocks $3 2" "blocks $3 4" "blocks $3 8" "blocks $3 16"; do
    read -r kernel seconds blocks <<<"$kernel"
    settings 4096 32 64 128 256 | sed "s/thread\"/$kernel\"/; s/\[.*\]/[$seconds]/; s/}/, \"blocks_per_entry\": $blocks}/"
  done
}
holds verdict_table_1 judge table_1 nishida-2011 table-i holds <<<"$about"$'\n'"$(every 1 2 3)"
holds verdict_table_1_fails judge table_1_fails nishida-2011 table-i fails <<<"$about"$'\n'"$(every 2 1 3)"
holds verdict_table_1_open judge table_1_open nishida-2011 table-i 'not measured' <<<"$about"$'\n'"$(every 2 1 3 | head -n -1)"
solved() { # solved N WAY SECONDS ...
  local n=$1
  while [ $# -gt 1 ]; do
    echo "{\"part\": \"solved\", \"on\": \"cuda\", \"measured\": true, \"n\": $n, \"way\": \"$2\", \"seconds_samples\": [$3]}"
    shift 2
  done
}
holds verdict_combination judge combination nishida-2011 combination holds \
  <<<"$about"$'\n'"$(solved 1024 thread 3 block 2 blocks 4 paper 1.98)"$'\n'"$(solved 4096 block 1 paper 2)"
holds verdict_combination_fails judge combination_fails nishida-2011 combination fails \
  <<<"$about"$'\n'"$(solved 1024 thread 3 block 2 blocks 4 paper 2.1)"
holds verdict_settings_seconds grep -q '>1112 s<' judged_settings/index.html
holds verdict_settings_open judge settings_open nishida-2011 table-i-a 'not measured' <<<"$about"$'\n'"$(settings 4096 32 64)"
# Every kernel's slowest diagonal is in the middle.
profile() { echo "{\"part\": \"profile\", \"kernel\": \"$1\", \"n\": 100, \"l\": [2, 50, 98], \"seconds\": [$2]}"; }
holds verdict_profile judge profile nishida-2011 figure-7 holds <<<"$about"$'\n'"$(profile thread '1, 2, 1')"$'\n'"$(profile paper '1, 2, 1')"
holds verdict_profile_late judge profile_late nishida-2011 figure-7 fails \
  <<<"$about"$'\n'"$(profile thread '1, 2, 3')"$'\n'"$(profile paper '1, 2, 1')"
# The chains' sizes are told, and what small ones cannot tell is left open.
chain() { # chain NAME CHAIN ORDER FAMILY SECONDS CREATION PLANNING
  echo "{\"part\": \"chains\", \"name\": \"$1\", \"chain\": \"f32:$2\", \"order\": \"$3\", \"family\": \"$4\", \"measured\": true," \
    "\"plan_s\": $7, \"create_s\": $6, \"seconds\": $5, \"seconds_samples\": [$5, $5], \"create_samples\": [$6, $6], \"workspace_bytes\": $6000}"
}
chains() { # chains BEST WORST PLANNING TREE-CREATION
  echo "$about"
  for order in in-order OP_Count; do
    chain best-6 "$1" "$order" plain 10 1 "$3"
    chain worst-6 "$2" "$order" plain 10 "$([ $order = in-order ] && echo 2 || echo "$4")" "$3"
  done
  chain best-6 "$1" OP_Count tee 15 1 "$3"
}
holds verdict_tree_fails judge tree_fails tee-acm2 tree fails < <(chains 8000x10000 20000x18000 1 1)
holds verdict_tree_open judge tree_open tee-acm2 tree 'not measured' < <(chains 20x25 50x45 1 1)
holds verdict_tree_sizes grep -q 'sizes divided by 400' judged_tree_open/index.html
fusion() { chains 8000x10000 20000x18000 0.1 1 && chain worst-6 20000x18000 OP_DM_Fuse plain "$1" 1 0.1; }
holds verdict_fusion judge fusion tee-acm2 fusion-tree holds < <(fusion 9)
holds verdict_fusion_fails judge fusion_fails tee-acm2 fusion-tree fails < <(fusion 11)
holds verdict_fusion_open judge fusion_open tee-acm2 fusion-tree 'not measured' < <(chains 8000x10000 20000x18000 1 1)
# What was not measured itself is told and drawn as such.
copied() { chains 8000x10000 20000x18000 0.1 1 && chain worst-6 20000x18000 OP_DM_Fuse plain 10 1 '0.1, "measured_as": "OP_Count"'; }
holds verdict_fusion_copied judge fusion_copied tee-acm2 fusion-tree 'not measured' < <(copied)
holds verdict_fusion_faint grep -q 'second faint' judged_fusion_copied/figure-18.svg
holds verdict_creation judge creation tee-acm2 creation holds < <(chains 8000x10000 20000x18000 0.1 1)
holds verdict_creation_fails judge creation_fails tee-acm2 creation fails < <(chains 8000x10000 20000x18000 0.1 3)
holds verdict_half judge half tee-acm2 cublas-on-chains beaten < <(chains 8000x10000 20000x18000 0.1 1)
