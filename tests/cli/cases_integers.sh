# cases_integers.sh: integers and truth values, from files to files. Sourced by run.sh.

for dtype in i8 i16 i32 i64 u8 u16 u32 u64 bool; do
  run generate "$dtype:20x70x80x9" -o "$dtype" --no-sync >said/generated
  check "integers_$dtype" 0 multiply "$dtype"/A{1,2,3}.npy -o "$dtype.npy" --check --no-sync
  check "integers_ref_$dtype" 0 multiply "$dtype"/A{1,2,3}.npy -o "$dtype-ref.npy" --on ref --no-sync
  verdict "integers_same_$dtype" "$(cmp "$dtype.npy" "$dtype-ref.npy" 2>&1)"
done
run generate 'i64%1000000007:30x30' -o mod --no-sync >said/generated
check integers_power 0 multiply 'mod/A1.npy^1000' -o P.npy --mod 1000000007 --check --no-sync
cat >power.py <<'END'
import array, sys

def read(path):
    data = open(path, "rb").read()
    numbers = array.array("q", data[10 + int.from_bytes(data[8:10], "little"):])
    return [numbers[30 * i:30 * i + 30].tolist() for i in range(30)]

def product(x, y, p=1000000007):
    columns = list(zip(*y))
    return [[sum(a * b for a, b in zip(row, column)) % p for column in columns] for row in x]

power, base, left = None, read("mod/A1.npy"), 1000
while left:
    if left & 1:
        power = base if power is None else product(power, base)
    base, left = product(base, base), left >> 1
sys.exit(power != read("P.npy"))
END
holds integers_power_is_pythons python3 power.py
check integers_checked 2 multiply i32/A1.npy i32/A2.npy -o C.npy --checked
run generate 'i32!:20x70x80x9' -o fit --no-sync >said/generated
check integers_fit 0 multiply fit/A{1,2,3}.npy -o C.npy --checked --check --no-sync
check integers_promoted 0 multiply i8/A1.npy u8/A2.npy i32/A3.npy -o C.npy --check --no-sync
make_npy F.npy '<f4' 70x80
check integers_and_floats 2 multiply i8/A1.npy F.npy -o C.npy
check integers_of_both_signs 2 multiply i64/A1.npy u64/A2.npy -o C.npy
check integers_mod_of_both_signs 2 multiply i64/A1.npy u64/A2.npy -o C.npy --mod 7
check integers_mod_and_checked 2 multiply i64/A1.npy i64/A2.npy -o C.npy --mod 7 --checked
check integers_mod_zero 2 multiply i64/A1.npy i64/A2.npy -o C.npy --mod 0
check integers_mod_large 2 multiply i64/A1.npy i64/A2.npy -o C.npy --mod 9223372036854775808
check integers_mod_bool 2 multiply bool/A1.npy bool/A2.npy -o C.npy --mod 7
run multiply i8/A1.npy i8/A2.npy -o M.npy --mod 1000 --json --no-sync >mod.json
check integers_saved_mod 0 multiply i8/A1.npy i8/A2.npy -o C.npy --plan mod.json --no-sync
holds integers_saved_mod_bits cmp C.npy M.npy
check integers_saved_other_mod 2 multiply i8/A1.npy i8/A2.npy -o C.npy --plan mod.json --mod 7
run plan 'i32!:20x70x80' --on ref --json >checked.json
check integers_saved_checked 2 multiply i32/A1.npy i32/A2.npy -o C.npy --plan checked.json
check integers_saved_and_mod 2 multiply i32/A1.npy i32/A2.npy -o C.npy --plan checked.json --mod 7
check integers_plan 0 plan 'i64%97:100x100^5' --on ref
check integers_plan_checked 0 plan 'u8!:10x20x30' --on ref
check integers_plan_residues 2 plan 'i8%1000:10x20x30'
check integers_plan_modulus 2 plan 'i8%:10x20x30'
check integers_plan_float 2 plan 'f32!:10x20x30'
check integers_tune 2 tune --chain i32:10x20x30
needs matlab check integers_matlab 2 multiply i8/A1.npy i8/A2.npy -o C.mat
