#!/usr/bin/env python3
"""check_progress.py MMCHAIN: what `generate` and `multiply` show of how far they are, on a terminal and elsewhere."""
import os
import pty
import re
import subprocess
import sys
import tempfile
import time

mmchain = sys.argv[1]
WIPED = "\r\033[K"


def environment(patience):
    variables = {**os.environ, "MMCHAIN_WISDOM": ""}
    variables.pop("MMCHAIN_PATIENCE_S", None)
    return variables if patience is None else {**variables, "MMCHAIN_PATIENCE_S": patience}


def on_terminal(*arguments, patience="0"):
    """What a command writes to a terminal that is its standard error."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([mmchain, *arguments], stdout=subprocess.PIPE, stderr=theirs, env=environment(patience)) as child:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            said += piece
        stdout = child.stdout.read().decode()
    os.close(ours)
    assert child.returncode == 0, said
    return stdout, said.decode()


def elsewhere(*arguments, patience="0"):
    done = subprocess.run([mmchain, *arguments], capture_output=True, text=True, env=environment(patience), check=True)
    return done.stdout, done.stderr


def shares(said):
    return [int(percent) for percent in re.findall(r"(\d+) %", said)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        chain, result = "f32:1000x1000x1000", os.path.join(folder, "R.npy")
        paths = [os.path.join(folder, f"A{i}.npy") for i in (1, 2)]
        generate = ("generate", chain, "-o", folder, "--no-sync")
        multiply = ("multiply", *paths, "-o", result, "--check", "--no-sync", "--on", "ref", "--for", "time")

        stdout, said = on_terminal(*generate)
        assert stdout == "".join(path + "\n" for path in paths)
        bars = re.findall(r"\rmmchain generate \[#*\.*\] +\d+ % (A\d (?:made|written))\033\[K", said)
        assert bars and bars[0] == "A1 made" and said.endswith(WIPED), said
        assert shares(said) == sorted(shares(said)) and shares(said)[-1] <= 100

        stdout, said = on_terminal(*multiply)
        assert stdout == ""
        # The device tells its share of the work; before it does, there is what was predicted.
        seconds = r"\d+ s of ([\d.e-]+ s predicted|some \d+ s)"
        assert re.search(rf"\rmmchain multiply \[#*\.*\] +\d+ % executed, {seconds}\033\[K", said), said
        assert "relative residual: " in said and f"{WIPED}relative residual" in said, said

        _, said = elsewhere(*generate)
        assert re.match(r"mmchain generate: \d+ % A1 made\n", said) and "\r" not in said, said
        _, said = elsewhere(*multiply)
        assert re.match(r"mmchain multiply: \d+ % executed, ", said) and "\r" not in said, said

        # Nothing is shown of work that is soon done, as this is but where the machine is busy.
        for show, patience_s in (elsewhere, 5), (on_terminal, 0.5):
            began_s = time.monotonic()
            _, said = show("generate", "2x3x2", "-o", folder, "--no-sync", patience=None)
            assert said == "" or time.monotonic() - began_s > patience_s, said


if __name__ == "__main__":
    main()
