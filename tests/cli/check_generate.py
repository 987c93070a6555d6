#!/usr/bin/env python3
"""check_generate.py PATH SEED STREAM ROWS COLS: whether a file of float64 or float16
holds the documented numbers.

splitmix64, then Box and Muller, times 1/sqrt(COLS); see cli/random.h.
"""
import math
import struct
import sys

path = sys.argv[1]
seed, stream, rows, cols = (int(argument) for argument in sys.argv[2:])
MASK = 2**64 - 1


def splitmix64(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def normals(bits):
    while True:
        u = ((next(bits) >> 11) + 1) / 2**53
        v = (next(bits) >> 11) / 2**53
        radius = math.sqrt(-2 * math.log(u))
        yield radius * math.cos(2 * math.pi * v)
        yield radius * math.sin(2 * math.pi * v)


state = next(splitmix64(seed)) ^ stream
numbers = normals(splitmix64(next(splitmix64(state))))
with open(path, "rb") as file:
    data = file.read()
half = b"<f2" in data[:128]
size, kind, epsilon, least = (2, "e", 2**-10, 2**-24) if half else (8, "d", 2**-52, 0)
found = struct.unpack(f"<{rows * cols}{kind}", data[-size * rows * cols :])
for index, value in enumerate(found):
    expected = next(numbers) / math.sqrt(cols)
    # Rounding, and what a C library's logarithm and cosine may differ by.
    if not abs(value - expected) <= max(epsilon * abs(expected), least) / 2 + 1e-14:
        sys.exit(f"element {index}: {value}, expected {expected}")
