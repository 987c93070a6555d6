"""What arguments may be, and what comes of them, for type checkers."""

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
