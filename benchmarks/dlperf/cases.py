"""Measured cases: models, their cases in each preset, and the work of a step."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

# The name of each dtype's arithmetic, the same on all systems. Every table has it as a column.
MATH = {
    "float32": "fp32",
    "tf32": "tf32",
    "float16": "fp16, loss scale 128, fp32 masters",
    "bfloat16": "bf16, fp32 masters",
}
# DLPerf's abbreviations, which names of logs contain.
SHORT = {"float32": "fp32", "tf32": "tf32", "float16": "fp16", "bfloat16": "bf16"}
DATA = ("resident", "real")
WARM_UP, STEPS = 20, 100
# A step that takes longer on any system gets fewer repetitions, on all of them.
LONG_STEP_SECONDS = 2.0
LONG_WARM_UP, LONG_STEPS = 4, 20


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of a table: the same work for every system.

    Attributes
    ----------
    model : str
        A name of :data:`MODELS`.
    dtype : str
        A key of :data:`MATH`.
    batch : int
        Samples of each rank.
    ranks : int
        Processes, one device each.
    data : str
        ``"resident"``: one batch that lies on the device; ``"real"``: files through the pipeline.
    size : int
        Height and width of the images, or tokens of a sequence.
    warm_up, steps : int
        Steps before and in each measured turn.
    network : str
        Name of the network where a model has several: ``bert_<layers>_<units>_<heads>``.
    """

    model: str
    dtype: str
    batch: int
    ranks: int
    data: str
    size: int
    warm_up: int = WARM_UP
    steps: int = STEPS
    network: str = ""

    @property
    def name(self) -> str:
        """Name in result files and tables."""
        return (
            f"{self.network or self.model} {SHORT[self.dtype]} b{self.batch} size {self.size} "
            f"{self.ranks} {'rank' if self.ranks == 1 else 'ranks'} {self.data}"
        )

    @property
    def samples(self) -> int:
        """Samples of a step of all ranks together."""
        return self.batch * self.ranks


@dataclasses.dataclass(frozen=True)
class Model:
    """One of DLPerf's benchmarks.

    Attributes
    ----------
    name : str
        Name on the command line.
    log_name : str
        Name in DLPerf's log files.
    sample : str
        What a sample is, in the plural.
    missing : str
        Why it cannot run yet; "" if it can.
    """

    name: str
    log_name: str
    sample: str
    missing: str = ""


MODELS = {
    model.name: model
    for model in (
        Model("resnet50", "rn50", "images"),
        Model("bert", "bert", "sequences"),
        Model(
            "wide_deep",
            "wdl",
            "rows",
            "not yet supported: there is no Wide & Deep training script in examples/",
        ),
        Model(
            "insightface",
            "r100",
            "images",
            "not yet supported: there is no face recognition training script in examples/",
        ),
        Model(
            "gpt",
            "gpt",
            "sequences",
            "not yet supported: there is no GPT training script in examples/",
        ),
    )
}


def _resnet50(preset: str, device: str) -> list[tuple[str, int, int, int, int]]:
    """Return dtype, batch, size, warm-up and steps of each case."""
    if preset == "smoke":
        return [("float32", 8, 112, 2, 5)]
    if device == "gpu":
        return [
            ("float16", 256, 224, WARM_UP, STEPS),
            ("bfloat16", 256, 224, WARM_UP, STEPS),
            ("float32", 128, 224, WARM_UP, STEPS),
            ("tf32", 128, 224, WARM_UP, STEPS),
        ]
    return [
        ("float32", 16, 224, WARM_UP, STEPS),
        ("bfloat16", 16, 224, WARM_UP, STEPS),
    ]


_BERT_BASE, _SMALL_BERT = "bert_12_768_12", "bert_2_128_2"


def _bert(preset: str, device: str) -> list[tuple[str, int, int, int, int]]:
    """Return dtype, batch, tokens, warm-up and steps of each case."""
    if preset == "smoke":
        return [("float32", 8, 64, 2, 5)]
    if device == "gpu":
        return [
            ("float16", 64, 128, WARM_UP, STEPS),
            ("bfloat16", 64, 128, WARM_UP, STEPS),
            ("float16", 128, 128, WARM_UP, STEPS),
            ("bfloat16", 128, 128, WARM_UP, STEPS),
            ("float32", 32, 128, WARM_UP, STEPS),
            ("tf32", 32, 128, WARM_UP, STEPS),
        ]
    return [
        ("float32", 8, 128, WARM_UP, STEPS),
        ("bfloat16", 8, 128, WARM_UP, STEPS),
    ]


_PRESETS = {"resnet50": _resnet50, "bert": _bert}


def _network(model: str, preset: str) -> str:
    """Return the network of a preset's cases, "" if the model has one only."""
    if model != "bert":
        return ""
    return _SMALL_BERT if preset == "smoke" else _BERT_BASE


@dataclasses.dataclass(frozen=True)
class Cell:
    """A case that ``--cells`` names in place of a preset's cases: ``float32:8x128``.

    Attributes
    ----------
    dtype : str
        A key of :data:`MATH`.
    batch : int
        Samples of each rank.
    size : int
        Height and width of the images, or tokens of a sequence.
    """

    dtype: str
    batch: int
    size: int

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Return the cell of ``dtype:BATCHxSIZE``.

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
            Another form, an unknown dtype, or a number below 1.
        """
        found = re.match(r"(\w+):(\d+)x(\d+)$", text)
        if found is None or found[1] not in MATH or not int(found[2]) or not int(found[3]):
            raise ValueError(
                f"cell {text!r}: expected DTYPE:BATCHxSIZE with a dtype of {', '.join(MATH)}, "
                "such as float32:8x128"
            )
        return cls(found[1], int(found[2]), int(found[3]))

    def __str__(self) -> str:
        return f"{self.dtype}:{self.batch}x{self.size}"


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
        Empty: those of the preset. The network and the repetitions are the preset's.
    data : sequence of str
        Some of :data:`DATA`.
    repetitions : tuple of two int, optional
        Steps before and in each measured turn, in place of the preset's.

    Returns
    -------
    list of Case
        In the order of their value for a session that may end early.
    """
    rows = _PRESETS[model](preset, device)
    if cells:
        rows = [(cell.dtype, cell.batch, cell.size, *rows[0][3:]) for cell in cells]
    return [
        Case(
            model, dtype, batch, count, kind, size, *(repetitions or given), _network(model, preset)
        )
        for dtype, batch, size, *given in rows
        for count in ranks
        for kind in data
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


# Multiply-adds of ResNet-50 v1.5's forward pass on 224 x 224 pixels, in units of 1e9.
_RESNET50_GMACS, _RESNET50_SIDE = 4.1, 224


def step_flops(case: Case) -> float:
    """Return the floating-point operations of a step of all ranks, multiply and add apart.

    Backward counts twice the forward pass. Convolutions grow with the image's area.

    Parameters
    ----------
    case : Case
        What is measured.

    Returns
    -------
    float
        Operations.
    """
    if case.model == "bert":
        return _bert_flops(case)
    if case.model != "resnet50":
        raise ValueError(f"{case.model}: the work of a step is not known")
    forward = 2e9 * _RESNET50_GMACS * (case.size / _RESNET50_SIDE) ** 2
    return 3 * forward * case.samples


# Tokens of the vocabulary, and the share of the positions that the decoder reads.
_BERT_VOCABULARY, _MASK_SHARE, _MOST_MASKS = 30522, 0.15, 80


def encoder_flops(layers: int, units: int, tokens: int) -> int:
    """Return the operations of a transformer's forward pass on one sequence: products, attention.

    Parameters
    ----------
    layers, units, tokens : int
        Size of the encoder, whose feed-forward parts have four times its units, and length.

    Returns
    -------
    int
        Operations, multiply and add apart.
    """
    return layers * (24 * units**2 * tokens + 4 * units * tokens**2)


def _bert_flops(case: Case) -> float:
    """Return the operations of the encoder's and decoder's products and of attention."""
    layers, units, _ = map(int, case.network.split("_")[1:])
    masks = min(_MOST_MASKS, round(case.size * _MASK_SHARE) + 1)
    encoder = 3 * encoder_flops(layers, units, case.size)
    decoder = 6 * masks * (units**2 + units * _BERT_VOCABULARY)
    return float(encoder + decoder) * case.samples
