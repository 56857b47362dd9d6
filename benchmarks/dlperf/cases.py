"""Measured cases: those of presets and of the command line, and the work of a step."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from dlperf.models import DATA, MODELS, Case, Row

# The name of each dtype's arithmetic, the same on all systems. Every table has it as a column.
MATH = {
    "float32": "fp32",
    "tf32": "tf32",
    "float16": "fp16, loss scale 128, fp32 masters",
    "bfloat16": "bf16, fp32 masters",
}
# A step that takes longer on any system gets fewer repetitions, on all of them.
LONG_STEP_SECONDS = 2.0
LONG_WARM_UP, LONG_STEPS = 4, 20


@dataclasses.dataclass(frozen=True)
class Cell:
    """A case that ``--cells`` names in place of a preset's cases: ``float32:8x128``.

    Attributes
    ----------
    dtype, batch, size, mode
        As in :class:`Case`.
    """

    dtype: str
    batch: int
    size: int
    mode: str = ""

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Return the cell of ``dtype:BATCHxSIZE`` or ``dtype:BATCHxSIZE:MODE``.

        Parameters
        ----------
        text : str
            As on the command line.

        Returns
        -------
        Cell

        Raises
        ------
        ValueError
            If the text has another form, an unknown dtype, or a number below 1.
        """
        found = re.match(r"(\w+):(\d+)x(\d+)(?::(\w+))?$", text)
        if found is None or found[1] not in MATH or not int(found[2]) or not int(found[3]):
            raise ValueError(
                "cell must be DTYPE:BATCHxSIZE or DTYPE:BATCHxSIZE:MODE with a dtype of "
                f"{', '.join(MATH)}, such as float32:8x128, got {text!r}"
            )
        return cls(found[1], int(found[2]), int(found[3]), found[4] or "")

    def row(self, rows: Sequence[Row]) -> Row:
        """Return the case with the network and the repetitions of the preset's first of its mode.

        Raises
        ------
        ValueError
            If the preset has no case of this mode.
        """
        modes = [row.mode for row in rows]
        if self.mode not in modes:
            known = ", ".join(repr(mode) for mode in dict.fromkeys(modes))
            raise ValueError(f"cell {self}: the preset has no mode {self.mode!r}, but {known}")
        given = rows[modes.index(self.mode)]
        return given._replace(dtype=self.dtype, batch=self.batch, size=self.size)

    def __str__(self) -> str:
        return f"{self.dtype}:{self.batch}x{self.size}" + (f":{self.mode}" if self.mode else "")


def preset_rows(model: str, preset: str, device: str) -> list[Row]:
    """Return the rows of a preset on a device; see :func:`cases`."""
    return MODELS[model].presets[preset if preset == "smoke" else device]


def cases(
    model: str,
    preset: str,
    device: str,
    ranks: Sequence[int],
    cells: Sequence[Cell] = (),
    data: Sequence[str] = DATA,
    repetitions: tuple[int, int] | None = None,
) -> list[Case]:
    """Return what a preset measures, or the cells that are given.

    Parameters
    ----------
    model : str
        A model that is not missing.
    preset : str
        ``"smoke"`` or ``"full"``.
    device : str
        ``"cpu"`` or ``"gpu"``.
    ranks : sequence of int
        Numbers of processes.
    cells : sequence of Cell
        Cells to measure instead of the preset's cases, with the network and the repetitions of the
        preset.
    data : sequence of str
        Some of :data:`DATA`.
    repetitions : tuple of two int, optional
        Steps before and in each measured turn, in place of the preset's.

    Returns
    -------
    list of Case
        In the order of their value for a session that may end early.
    """
    rows = preset_rows(model, preset, device)
    if cells:
        rows = [cell.row(rows) for cell in cells]
    return [
        Case(
            *(model, row.dtype, row.batch, count, kind, row.size),
            *(repetitions or (row.warm_up, row.steps)),
            *(row.network, row.mode),
        )
        for row in rows
        for count in ranks
        if row.ranks in (0, count)
        for kind in data
        if kind in row.data
    ]


def check_model(name: str) -> None:
    """Raise SystemExit for a model that is unknown or cannot run yet.

    Parameters
    ----------
    name : str
        As on the command line.
    """
    if name not in MODELS:
        raise SystemExit(f"dlperf: no model {name!r}; there are {', '.join(MODELS)} and all")
    if MODELS[name].missing:
        raise SystemExit(f"dlperf: {name} is {MODELS[name].missing}")


def step_flops(case: Case) -> float:
    """Return the floating-point operations of a step of all ranks.

    Multiply and add count separately, and recomputed operations count.

    Parameters
    ----------
    case : Case
        What is measured.

    Returns
    -------
    float
        Operations.
    """
    model = MODELS[case.model]
    return model.flops(case) * case.samples * (1 + model.recomputed(case))


def model_flops(case: Case) -> float:
    """Return the operations of :func:`step_flops` that are not recomputed, as MFU counts them."""
    return step_flops(case) / (1 + MODELS[case.model].recomputed(case))
