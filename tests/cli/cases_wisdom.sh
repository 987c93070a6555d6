# cases_wisdom.sh: `mmchain wisdom`. Sourced by run.sh.

# wisdom PATH: the store of the cases that follow; none: that of nobody.
wisdom() { environment=("MMCHAIN_WISDOM=$1"); }

cat >wisdom.txt <<'END'
mmchain wisdom 1
fingerprint "blas" "A processor, 4 cores" "" "A \"BLAS\", 4 threads" "0.1.0" "f32" "native"
product 256 3072 2048 N N time "split m 2" 0.00125 0.01 0.0015 - - - "measured" 1700000000
product 256 3072 2048 N T energy "plain" 0.0015 0.02 0.0015 0.25 0.25 166.5 "measured" 1700000001
array N N time 2 1 3 1700000002
 m 64 128
 k 4096
 n 1 2 4611686018427387904
 E 1000000000 2000000000.5 0
 E 0.1 1e+30 4.94065645841247e-324
fact "launch_s" 5.2e-06 0.03 1700000003
progress "range 4096" "64" "0.001 0.01" 1700000004
progress "range 4096" "65" "never" 1700000005
fingerprint "cuda" "A card, 132 SMs" "CUDA 12.8, runtime 12.6" "" "0.1.0" "f64" "native"
product 1 2 3 H N time "plain" 1e-06 0 1e-06 - - - "measured" 1700000006
end 7
END

if ! has sqlite; then
  echo "skipped: mmchain wisdom: built without SQLite"
  environment=()
  return
fi

# ---- import and export ---------------------------------------------------------------------------

wisdom "$work/cache/one.db"
check wisdom_import 0 wisdom import wisdom.txt
check wisdom_export 0 wisdom export
holds wisdom_export_same cmp said/wisdom_export.stdout wisdom.txt
check wisdom_export_file 0 wisdom export -o exported.txt
holds wisdom_export_file_same cmp exported.txt wisdom.txt
check wisdom_import_again 0 wisdom import wisdom.txt
wisdom "$work/cache/two.db"
input=exported.txt
check wisdom_import_standard_input 0 wisdom import -
run wisdom export >again.txt
holds wisdom_export_again cmp again.txt wisdom.txt
wisdom "$work/cache/one.db"
echo old >full.txt
check wisdom_export_no_directory 2 wisdom export -o missing/wisdom.txt
check wisdom_export_full 2 wisdom export -o /dev/full
ln -s cache/one.db link.db
check wisdom_export_onto_store 2 wisdom export -o link.db
check wisdom_export_onto_log 2 wisdom export -o cache/one.db-wal
wisdom "" # a store is one, whichever is in use
check wisdom_plan_onto_store 2 plan 10x20x30 --on ref --svg link.db
check wisdom_order_onto_log 2 order 10x20x30 -o cache/one.db-journal
ln -s cache/one.db-wal log.db
check wisdom_plan_onto_link 2 plan 10x20x30 --on ref --svg log.db
wisdom "$work/cache/one.db"
run wisdom export >kept.txt
holds wisdom_store_kept cmp kept.txt wisdom.txt
check wisdom_import_missing 2 wisdom import missing.txt
check wisdom_import_directory 2 wisdom import said
head -c 600 wisdom.txt >cut.txt
check wisdom_import_cut 2 wisdom import cut.txt
sed '7d' wisdom.txt >short.txt
check wisdom_import_short 2 wisdom import short.txt
sed '1s/1$/2/' wisdom.txt >future.txt
check wisdom_import_future 2 wisdom import future.txt
sed '3p' wisdom.txt >twice.txt
check wisdom_import_twice 2 wisdom import twice.txt
sed '3s/0.00125/-1/' wisdom.txt >negative.txt
check wisdom_import_negative 2 wisdom import negative.txt
head -c 100000000 /dev/zero | tr '\0' x >long.line
check wisdom_import_long 2 wisdom import long.line
rm long.line
printf 'mmchain\0wisdom 1\n' >binary
check wisdom_import_binary 2 wisdom import binary
run wisdom export >again.txt
holds wisdom_import_nothing cmp again.txt wisdom.txt

# ---- show, info, forget --------------------------------------------------------------------------

check_show() { # the path of the store differs from run to run
  run wisdom show "${@:2}" | sed "s|$work|WORK|" >"said/$1.stdout"
  verdict "$1" "$(compare "$1" "said/$1.stdout" stdout)"
}
check_show wisdom_show
check_show wisdom_show_json --json
holds wisdom_show_json_valid is_json said/wisdom_show_json.stdout
run info >info.txt
holds wisdom_info grep -q '/cache/one.db: 0 entries, 7 of other machines$' info.txt
run info --json >info.json
holds wisdom_info_json_valid is_json info.json
holds json_members_documented python3 "$here/check_members.py" "$here/../../docs/json.md" info.json "$expected"/*json*.stdout
holds wisdom_info_json grep -q '"available": true, "entries": 0, "foreign": 7, "damaged": 0' info.json
check wisdom_forget_nothing 2 wisdom forget
check wisdom_forget_both 2 wisdom forget --all --foreign
check wisdom_forget_bad_device 2 wisdom forget --on gpu
check wisdom_forget_bad_dtype 2 wisdom forget --dtype f8
check wisdom_forget_progress 0 wisdom forget --progress
check wisdom_forget_dtype 0 wisdom forget --dtype f64 --json
check wisdom_forget_device 0 wisdom forget --on cuda
check wisdom_forget_foreign 0 wisdom forget --foreign
check wisdom_forget_all 0 wisdom forget --all
check_show wisdom_show_empty

# What this machine's fingerprint is, told by itself: an entry under it is no longer foreign.
wisdom "$work/cache/own.db"
run info --json >info.json
python3 - info.json "$("$mmchain" --version | cut -d' ' -f2)" >own.txt <<'END'
import json, sys
info = json.load(open(sys.argv[1]))
model = "%s, %d cores" % (info["processor"]["model"], info["processor"]["cores"])
print("mmchain wisdom 1")
print('fingerprint "ref" "%s" "" "" "%s" "f64" "native"' % (model, sys.argv[2]))
print('product 1 2 3 N N time "plain" 1e-06 0 1e-06 - - - "measured" 1700000006\nend 1')
END
check wisdom_own_import 0 wisdom import own.txt
run info >info.txt
holds wisdom_own grep -q '/cache/own.db: 1 entry$' info.txt
check wisdom_own_forget_foreign 0 wisdom forget --foreign
check wisdom_own_forget 0 wisdom forget --on ref

# ---- stores that are not in order ----------------------------------------------------------------

wisdom ""
check wisdom_none 1 wisdom show
check wisdom_none_import 1 wisdom import wisdom.txt
run info >info.txt
holds wisdom_none_info grep -q '^  no wisdom store: the path given is empty$' info.txt
environment=(-u MMCHAIN_WISDOM -u XDG_CACHE_HOME -u HOME)
check wisdom_no_home 1 wisdom show
environment=(-u MMCHAIN_WISDOM -u XDG_CACHE_HOME "HOME=$work/home")
check wisdom_home 0 wisdom import wisdom.txt
holds wisdom_home_place test -s home/.cache/mmchain/wisdom.db
environment=(-u MMCHAIN_WISDOM "XDG_CACHE_HOME=$work/xdg")
check wisdom_cache 0 wisdom import wisdom.txt
holds wisdom_cache_place test -s xdg/mmchain/wisdom.db
# In the usual place a broken store gives way to a new one.
head -c 3000 /dev/urandom >xdg/mmchain/wisdom.db
run info 2>said/broken >info.txt
verdict wisdom_corrupt_info "$([ $? = 0 ] || echo "expected exit status 0")"
holds wisdom_corrupt_said grep -q 'was corrupt and is now called so with .corrupt-1 after it' said/broken
holds wisdom_corrupt_kept test -s xdg/mmchain/wisdom.db.corrupt-1
run wisdom import wisdom.txt >said/broken 2>&1
verdict wisdom_corrupt_import "$([ $? = 0 ] || echo "expected exit status 0")"
holds wisdom_corrupt_said_once test ! -s said/broken
# A bad page is found by whoever opens the store, and what else it holds is kept.
{
  printf 'mmchain wisdom 1\nfingerprint "blas" "m" "" "b" "1" "f32" "native"\n'
  for n in {1..300}; do
    printf 'product %s 2 3 N N time "whole" 0.1 0 0.1 - - - "measured" 1\n' "$n"
  done
  printf 'end 300\n'
} >page.txt
environment=(-u XDG_CACHE_HOME "MMCHAIN_WISDOM=$work/page.db")
run wisdom import page.txt
pages=$(($(stat -c %s page.db) / 4096))
printf '\0' | dd of=page.db bs=1 seek=$(((pages - 3) * 4096)) conv=notrunc status=none
run wisdom import wisdom.txt >said/page 2>&1
verdict wisdom_page_import "$([ $? = 0 ] || echo "expected exit status 0")"
holds wisdom_page_said grep -q 'begun with the [1-9][0-9]* of its records' said/page
holds wisdom_page_export run wisdom export
holds wisdom_page_kept test "$(run wisdom export | grep -c '"whole"')" -ge 150
environment=(-u MMCHAIN_WISDOM "XDG_CACHE_HOME=$work/xdg")
run wisdom export >again.txt
holds wisdom_corrupt_begun cmp again.txt wisdom.txt
wisdom said
run wisdom import wisdom.txt >said/directory 2>&1
verdict wisdom_directory "$([ $? = 1 ] || echo "expected exit status 1")"
holds wisdom_directory_said grep -q 'expected a file, got a directory' said/directory
wisdom ""

# ---- bad usage -----------------------------------------------------------------------------------

check wisdom_nothing 2 wisdom
check wisdom_bad_verb 2 wisdom remember
check wisdom_show_output 2 wisdom show -o x
check wisdom_export_json 2 wisdom export --json
check wisdom_import_nothing_named 2 wisdom import
check wisdom_import_two 2 wisdom import wisdom.txt wisdom.txt
check wisdom_show_all 2 wisdom show --all
temporaries wisdom_temporaries .
environment=()
