"""The command `mmchain` of a wheel: the program that lies in the package, with what it needs.

It is no part of the package, so that the command starts without importing NumPy.
"""

from __future__ import annotations

import glob
import os
import sys
from importlib.util import find_spec
from typing import Dict, Optional


def _folder_of(package: str) -> Optional[str]:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else os.path.dirname(spec.origin)


def _openblas() -> Optional[str]:
    """NumPy's, which mmchain in Python multiplies by too, or that of the package scipy-openblas64."""
    folders = []
    numpy = _folder_of("numpy")
    if numpy is not None:
        folders.append(os.path.join(os.path.dirname(numpy), "numpy.libs"))
    for package in ("scipy_openblas64", "scipy_openblas32"):
        folder = _folder_of(package)
        if folder is not None:
            folders.append(os.path.join(folder, "lib"))
    for folder in folders:
        found = sorted(glob.glob(os.path.join(glob.escape(folder), "*openblas*.so*")))
        if found:
            return found[0]
    return None


def _add_folder(environment: Dict[str, str], folder: str) -> None:
    """Lets the program find what lies beside an OpenBLAS: until NumPy 1.26 that has no path to it."""
    if glob.glob(os.path.join(glob.escape(folder), "libgfortran*")):
        known = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{folder}:{known}" if known else folder


def main() -> None:
    """Becomes the program, with the arguments of this process."""
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.join(here, "mmchain")
    program = os.path.join(package, "bin", "mmchain")
    environment = dict(os.environ)
    if not environment.get("MMCHAIN_BLAS"):
        openblas = _openblas()
        if openblas is not None:
            environment["MMCHAIN_BLAS"] = openblas
            _add_folder(environment, os.path.dirname(openblas))
    if "MMCHAIN_MODULE_DIR" not in environment and glob.glob(os.path.join(package, "mmchain-*.so")):
        environment["MMCHAIN_MODULE_DIR"] = package
    try:
        os.execve(program, ["mmchain", *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"mmchain: {program}: {error.strerror}: `pip install --force-reinstall mmchain`")


if __name__ == "__main__":
    main()
