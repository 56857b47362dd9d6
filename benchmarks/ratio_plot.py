"""Draw the ratios of mxlite to the best other system, one line for each cell of the tables."""

from __future__ import annotations

import itertools
import math
from html import escape
from typing import NamedTuple

LINE, TITLE = 16, 30  # pixels: height of a cell, and of the name of a machine
LEFT, WIDTH, RIGHT = 360, 400, 60
LOWEST, HIGHEST = 0.5, 4.0
TICKS = [0.5, 0.7, 1, 1.5, 2, 3, 4]
WON, LOST = "#0b6e4f", "#c0392b"


class Cell(NamedTuple):
    """A cell of a table: the machine, what was measured, and the quartiles of the ratio."""

    machine: str
    label: str
    q1: float
    median: float
    q3: float


def position(ratio: float) -> float:
    """Return where a ratio stands on the logarithmic axis; those outside stand at its ends."""
    inside = min(max(ratio, LOWEST), HIGHEST)
    return LEFT + WIDTH * math.log(inside / LOWEST) / math.log(HIGHEST / LOWEST)


def draw(cells: list[Cell]) -> str:
    """Return the plot as SVG: a dot at each median, and a line from quartile to quartile."""
    shapes, y = [], 8
    for machine, group in itertools.groupby(cells, key=lambda cell: cell.machine):
        y += TITLE
        shapes.append(f'<text x="8" y="{y - 10}" font-weight="bold">{escape(machine)}</text>')
        for cell in sorted(group, key=lambda cell: -cell.median):
            y += LINE
            color = WON if cell.median >= 1 else LOST
            low, middle, high = (f"{position(x):.1f}" for x in cell[2:])
            shapes += [
                f'<text x="{LEFT - 12}" y="{y}" text-anchor="end">{escape(cell.label)}</text>',
                f'<path d="M{low} {y - 4}H{high}" stroke="{color}" stroke-width="2"/>',
                f'<circle cx="{middle}" cy="{y - 4}" r="4" fill="{color}"/>',
                f'<text x="{LEFT + WIDTH + 12}" y="{y}" fill="{color}">{cell.median:.2f}</text>',
            ]
    axis = []
    for tick in TICKS:
        x, color = f"{position(tick):.1f}", "#555" if tick == 1 else "#ddd"
        axis.append(f'<path d="M{x} 20V{y + 4}" stroke="{color}"/>')
        axis.append(f'<text x="{x}" y="{y + 20}" text-anchor="middle">{tick}</text>')
    size = f'width="{LEFT + WIDTH + RIGHT}" height="{y + 28}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    )
    return "\n".join(
        [head, '<rect width="100%" height="100%" fill="#fff"/>', *axis, *shapes, "</svg>\n"]
    )
