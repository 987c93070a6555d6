"""Which BLAS multiplies on the CPU.

OpenBLAS's threads wait for the next product for tens of milliseconds without sleeping. With an
OpenBLAS beside the one of NumPy's wheel, products by NumPy and by mmchain in turns would find each
other's threads on their cores. So mmchain multiplies by the one that NumPy has loaded, where there is
one: one pool of threads for both.
"""

from __future__ import annotations

import glob
import os
from importlib.util import find_spec
from typing import Iterator, List

from . import _mmchain

_variable = "MMCHAIN_BLAS"


def _loaded() -> List[str]:
    """The files of the OpenBLAS libraries in this process, NumPy's own first."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "openblas" in line}
    except OSError:
        return []
    files = [path for path in paths if path.startswith("/") and ".so" in os.path.basename(path)]
    return sorted(files, key=lambda path: ("/numpy.libs/" not in path, path))


def _packaged() -> Iterator[str]:
    """The libraries of the packages scipy-openblas64 and scipy-openblas32."""
    for package in ("scipy_openblas64", "scipy_openblas32"):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        yield from sorted(glob.glob(os.path.join(os.path.dirname(spec.origin), "lib", "*openblas*.so*")))


def paths() -> List[str]:
    """The libraries to try before those that libmmchain finds by itself; none where MMCHAIN_BLAS
    decides."""
    if os.environ.get(_variable):
        return []
    return _loaded() or list(_packaged())


def check() -> None:
    """Raises ImportError where products would be multiplied by plain loops unasked."""
    if os.environ.get(_variable) == "none":
        return
    description, available = _mmchain.blas()
    if not available:
        # No package helps a library that cannot load one.
        advice = "" if "MMC_WITH_BLAS" in description else "`pip install scipy-openblas64` brings one. "
        raise ImportError(
            f"mmchain has no BLAS to multiply with: {description}. {advice}{_variable}=none in the "
            "environment has plain loops instead, which take some 100 times as long."
        )


