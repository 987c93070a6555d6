#!/usr/bin/env python3
"""show_npy.py PATH: the dtype, shape and elements of an .npy file in C order, without NumPy."""
import ast
import struct
import sys

with open(sys.argv[1], "rb") as file:
    data = file.read()
length = struct.unpack("<H", data[8:10])[0]
header = ast.literal_eval(data[10 : 10 + length].decode())
descr = header["descr"]
assert data[:8] == b"\x93NUMPY\x01\x00" and not header["fortran_order"] and descr[0] == "<"
kind = {"f2": "e", "f4": "f", "f8": "d", "c8": "f", "c16": "d", "i4": "i", "i8": "q"}[descr[1:]]
numbers = [number for (number,) in struct.iter_unpack("<" + kind, data[10 + length :])]
if descr[1] == "c":
    numbers = [f"{re:g}{im:+g}j" for re, im in zip(numbers[::2], numbers[1::2])]
else:
    numbers = [f"{number:g}" for number in numbers]
print(descr[1:], header["shape"], *numbers)
