"""The tree of a plan as SVG: factors in a row at the bottom, each product above its operands."""

from __future__ import annotations

from typing import List, Sequence, Tuple

_width, _height, _box = 96, 72, (80, 36)  # of a column, a row and a node, in pixels

_style = (
    "text{font:12px sans-serif;text-anchor:middle;fill:#111}"
    "rect{fill:#eef3fb;stroke:#456;rx:4}line{stroke:#456}.factor{fill:#fff}"
)


def _node(x: float, y: float, name: str, size: str, kind: str) -> str:
    w, h = _box
    return (
        f'<rect class="{kind}" x="{x - w / 2:g}" y="{y - h / 2:g}" width="{w}" height="{h}"/>'
        f'<text x="{x:g}" y="{y - 3:g}">{name}</text><text x="{x:g}" y="{y + 12:g}">{size}</text>'
    )


def tree(dims: Sequence[int], products: Sequence[Tuple[int, int]], n: int) -> str:
    """The SVG of n factors multiplied by products, pairs of a factor or n plus a product."""
    spans = [(i, i) for i in range(n)]
    level = [0] * n
    x = [(i + 0.5) * _width for i in range(n)]
    for left, right in products:
        spans.append((spans[left][0], spans[right][1]))
        level.append(max(level[left], level[right]) + 1)
        x.append((x[left] + x[right]) / 2)
    height = (level[-1] + 1) * _height
    y = [height - (rows + 0.5) * _height for rows in level]
    lines: List[str] = []
    nodes: List[str] = []
    for v, (first, last) in enumerate(spans):
        name = f"A{v + 1}" if v < n else "R" if v == len(spans) - 1 else f"T{v - n + 1}"
        kind = "factor" if v < n else "product"
        nodes.append(_node(x[v], y[v], name, f"{dims[first]}×{dims[last + 1]}", kind))
        for operand in products[v - n] if v >= n else ():
            lines.append(
                f'<line x1="{x[v]:g}" y1="{y[v]:g}" x2="{x[operand]:g}" y2="{y[operand]:g}"/>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{n * _width}" height="{height}" '
        f'viewBox="0 0 {n * _width} {height}"><style>{_style}</style>'
        + "".join(lines + nodes)
        + "</svg>"
    )
