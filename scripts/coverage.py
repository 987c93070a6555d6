"""coverage.py BUILD ROOM...: the branches of rooms of src/ that gcov's counts in BUILD say were taken."""

import collections
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

LEAST = 95.0


def counts_of(build, room):
    """{file: {line: [taken or not, a branch]}} of a room, over all programs that hold its files."""
    found = collections.defaultdict(dict)
    notes = glob.glob(f"{build}/src/CMakeFiles/*.dir/{room}/*.gcno")
    with tempfile.TemporaryDirectory() as work:
        paths = [os.path.abspath(path) for path in notes]
        subprocess.run(["gcov", "--json-format", "-b", *paths], cwd=work, check=True, capture_output=True)
        for report in glob.glob(f"{work}/*.gcov.json.gz"):
            with gzip.open(report) as text:
                files = json.load(text)["files"]
            for file in files:
                name = os.path.relpath(os.path.join(build, file["file"]))
                name = name[name.rindex("src/") :] if "src/" in name else name
                if not name.startswith(f"src/{room}/"):
                    continue
                for line in file["lines"]:
                    taken = [branch["count"] > 0 for branch in line["branches"] if not branch["throw"]]
                    lines = found[name]
                    before = lines.get(line["line_number"])
                    if before is not None and len(before) == len(taken):
                        taken = [a or b for a, b in zip(before, taken)]
                    elif before is not None:
                        taken = max(before, taken, key=len)
                    lines[line["line_number"]] = taken
    return found


def main():
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
