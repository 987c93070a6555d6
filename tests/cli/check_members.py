"""check_members.py PAGE FILE...: every member of the JSON objects in the files is named on the page.

A file is one object or several; others are passed over.
"""
import json
import re
import sys


def members(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner)


def objects(text):
    text = text.strip()
    while text.startswith("{"):
        value, end = json.JSONDecoder().raw_decode(text)
        yield value
        text = text[end:].lstrip()


with open(sys.argv[1]) as page:
    named = set(re.findall(r"\w+", page.read()))
missing = set()
for path in sys.argv[2:]:
    with open(path) as file:
        missing.update((name, path) for name in members(list(objects(file.read()))) if name not in named)
for name, path in sorted(missing):
    print(f"{sys.argv[1]} does not name the member {name!r} of {path}")
sys.exit(1 if missing else 0)
