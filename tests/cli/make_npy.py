#!/usr/bin/env python3
"""make_npy.py PATH DESCR SHAPE [fortran | times X]: an .npy file without NumPy's help.

DESCR is NumPy's, '<f8' or '>c16' or '<i4' or '<V2'; SHAPE is 2x3, 5 or "" for a scalar. Elements
count 1, 2, 3 ... as they lie in the file; of complex numbers the imaginary part is the negative of
the real one. With times X, all are multiplied by X.
"""
import struct
import sys


def main():
    path, descr, shape_text = sys.argv[1:4]
    fortran = sys.argv[4:] == ["fortran"]
    times = float(sys.argv[5]) if sys.argv[4:5] == ["times"] else 1
    shape = tuple(int(dim) for dim in shape_text.split("x")) if shape_text else ()
    count = 1
    for dim in shape:
        count *= dim
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    order = ">" if descr[0] == ">" else "<"
    kinds = {"f2": "e", "f4": "f", "f8": "d", "c8": "f", "c16": "d", "i4": "i", "V2": "H"}
    kind = kinds[descr[1:]]
    elements = []
    for value in range(1, count + 1):
        value = value * times if times != 1 else value
        elements += [value, -value] if descr[1] == "c" else [value]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"{order}{len(elements)}{kind}", *elements))


main()
