"""coverage.py BUILD ROOM...: the branches of rooms of src/ that gcov's counts in BUILD say were taken."""

import collections
import glob
import json
import os
import subprocess
import sys

LEAST = 95.0


def add_lines(found, lines):
    """Adds what one report says of the lines of a file; a branch that was taken in any is."""
    for line in lines:
        taken = [branch["count"] > 0 for branch in line["branches"] if not branch["throw"]]
        before = found.get(line["line_number"])
        if before is not None and len(before) == len(taken):
            taken = [a or b for a, b in zip(before, taken)]
        elif before is not None:
            taken = max(before, taken, key=len)
        found[line["line_number"]] = taken


def counts_of(build, room):
    """{file: {line: [taken or not, a branch]}} of a room, over all programs that hold its files."""
    found = collections.defaultdict(dict)
    notes = glob.glob(f"{build}/src/CMakeFiles/*.dir/{room}/*.gcno")
    notes += glob.glob(f"{build}/tests/CMakeFiles/*.dir/__/src/{room}/*.gcno")  # what tests build in themselves
    for path in notes:
        command = ["gcov", "--json-format", "--stdout", "-b", os.path.abspath(path)]
        told = subprocess.run(command, cwd=build, check=True, capture_output=True, text=True).stdout
        for file in [file for report in told.splitlines() for file in json.loads(report)["files"]]:
            name = os.path.relpath(os.path.join(build, file["file"]))
            name = name[name.rindex("src/") :] if "src/" in name else name
            if name.startswith(f"src/{room}/"):
                add_lines(found[name], file["lines"])
    return found


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, rooms = sys.argv[1], sys.argv[2:]
    low, missed = False, []
    print(f"{'':40} branches   taken")
    for room in rooms:
        all_of_room = taken_of_room = 0
        for name, lines in sorted(counts_of(build, room).items()):
            branches = [branch for taken in lines.values() for branch in taken]
            all_of_room += len(branches)
            taken_of_room += sum(branches)
            if branches:
                print(f"  {name:38} {len(branches):8} {100 * sum(branches) / len(branches):6.1f} %")
            with open(name) as text:
                source = text.read().split("\n")
            for number, taken in sorted(lines.items()):
                if not all(taken):
                    which = "".join("+" if branch else "-" for branch in taken)
                    missed.append(f"{name}:{number}: {which} {source[number - 1].strip()}")
        share = 100 * taken_of_room / max(1, all_of_room)
        low = low or share < LEAST
        print(f"{room:40} {all_of_room:8} {share:6.1f} %")
    print("\nnot taken (+ a branch that was, - one that was not):")
    print("\n".join(missed))
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
