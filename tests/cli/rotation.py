#!/usr/bin/env python3
"""rotation.py make PATH ANGLE | check PATH ANGLE TOLERANCE: the 2 x 2 matrix of a rotation, whose
powers are known, as an .npy file; without NumPy."""
import math
import struct
import sys

verb, path, angle = sys.argv[1], sys.argv[2], float(sys.argv[3])
known = [math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)]
if verb == "make":
    header = repr({"descr": "<f8", "fortran_order": False, "shape": (2, 2)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<4d", *known))
else:
    with open(path, "rb") as file:
        found = struct.unpack("<4d", file.read()[-32:])
    error = max(abs(a - b) for a, b in zip(found, known))
    assert error <= float(sys.argv[4]), f"{error} too far from the rotation by {angle}"
