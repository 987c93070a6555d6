"""What arguments may be, and what comes of them, for type checkers; and the names of dtypes."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar, Union

Objective = Literal["time", "energy", "flops", "traffic"]
Precision = Literal["native", "faithful", "fast", "reproducible", "reproducible+faithful"]
Solver = Literal["auto", "hu-shing", "table", "brute", "left-to-right"]
Format = Literal["text", "json", "dot", "svg"]
# Any other is "cuda:N".
Device = Union[Literal["cpu", "blas", "ref", "cuda"], str]


class SupportsDlpack(Protocol):
    """Arrays of NumPy, PyTorch, CuPy and JAX."""

    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...


# A product is of the kind of its factors.
Array = TypeVar("Array", bound=SupportsDlpack)

# The library's names of dtypes, by those of NumPy, PyTorch and JAX.
float_names = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
integer_names = {"bool": "bool"}
integer_names.update({f"{kind}int{size}": f"{kind or 'i'}{size}" for kind in ("", "u") for size in (8, 16, 32, 64)})
