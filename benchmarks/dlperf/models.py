"""DLPerf's models: the cases of each preset, and the work of a sample."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "gpt"))
from presets import CASES as PUBLISHED_GPT
from presets import LENGTH as GPT_LENGTH
from presets import case as published_case
from presets import iteration_flops

from dlperf.gpt.recipe import SAMPLING
from dlperf.wide_deep.recipe import DEEP_FIELDS, HIDDEN, NUMBERS

HERE = Path(__file__).resolve().parent
DATA = ("resident", "real")
# DLPerf's tables have a column for each number of devices.
DEVICES = (1, 8, 16, 32)
WARM_UP, STEPS = 20, 100
# DLPerf's abbreviations, which names of logs contain.
SHORT = {"float32": "fp32", "tf32": "tf32", "float16": "fp16", "bfloat16": "bf16"}


class Row(NamedTuple):
    """A case of a preset, before ranks and data are chosen."""

    dtype: str
    batch: int
    size: int
    network: str = ""
    mode: str = ""
    ranks: int = 0  # 0 takes those of the command line; else the case runs with this number only
    warm_up: int = WARM_UP
    steps: int = STEPS
    data: tuple[str, ...] = DATA


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of a table: the same work for every system.

    Attributes
    ----------
    model : str
        A name of :data:`MODELS`.
    dtype : str
        A key of :data:`cases.MATH`.
    batch : int
        Samples of each data-parallel copy of the network, which is each rank unless ``mode`` says
        otherwise.
    ranks : int
        Processes, one device each.
    data : str
        ``"resident"``: one batch that lies on the device; ``"real"``: files through the pipeline.
    size : int
        Height and width of the images, tokens of a sequence, or rows of the deep table.
    warm_up, steps : int
        Steps before and in each measured turn.
    network : str
        Name of the network where a model has several: ``bert_<layers>_<units>_<heads>``.
    mode : str
        How the network is divided or used, where a model has several ways; "" is data parallel
        training. ``step.md`` lists them.
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
    mode: str = ""

    @property
    def name(self) -> str:
        """Name in result files and tables."""
        mode = f" {self.mode}" if self.mode else ""
        return (
            f"{self.network or self.model} {SHORT[self.dtype]} b{self.batch} size {self.size} "
            f"{self.ranks} {'rank' if self.ranks == 1 else 'ranks'} {self.data}{mode}"
        )

    @property
    def samples(self) -> int:
        """Samples of a step of all ranks together."""
        return self.batch * MODELS[self.model].copies(self)


@dataclasses.dataclass(frozen=True)
class Model:
    """One of DLPerf's benchmarks.

    Attributes
    ----------
    name : str
        Name on the command line, and of the folder with its scripts.
    log_name : str
        Name in DLPerf's log files; "" is the first part of the network's.
    sample : str
        What a sample is, in the plural.
    presets : dict
        Rows of ``"smoke"``, and of ``"cpu"`` and ``"gpu"``, which are ``full`` on such a device.
    flops : callable
        ``flops(case)`` gives the operations of a sample that the model itself needs, multiply and
        add apart.
    copies : callable
        ``copies(case)`` gives the number of data-parallel copies of the network.
    recomputed : callable
        ``recomputed(case)`` gives what share of ``flops`` is computed once more.
    sizes : tuple of int
        Least and greatest ``size`` of a case.
    alone : tuple of str
        Systems whose scripts run on one rank only.
    """

    name: str
    log_name: str
    sample: str
    presets: dict[str, list[Row]]
    flops: Callable[[Case], float]
    copies: Callable[[Case], int] = lambda case: case.ranks
    recomputed: Callable[[Case], float] = lambda case: 0.0
    sizes: tuple[int, int] = (1, 1 << 20)
    alone: tuple[str, ...] = ()

    def has_script(self, system: str) -> bool:
        """Return whether a system has a script for the model."""
        return (HERE / self.name / f"on_{system}.py").exists()

    @property
    def missing(self) -> str:
        """The reason that the model cannot run; "" if it can."""
        if self.has_script("mxlite"):
            return ""
        return f"not yet supported: benchmarks/dlperf/{self.name} has no on_mxlite.py"


# Multiply-adds of ResNet-50 v1.5's forward pass on 224 x 224 pixels, in units of 1e9.
_RESNET50_GMACS, _RESNET50_SIDE = 4.1, 224


def _resnet50_flops(case: Case) -> float:
    """Convolutions grow with the image's area; backward counts twice the forward pass."""
    return 3 * 2e9 * _RESNET50_GMACS * (case.size / _RESNET50_SIDE) ** 2


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
    layers, units, _ = numbers(case.network)
    masks = min(_MOST_MASKS, round(case.size * _MASK_SHARE) + 1)
    encoder = 3 * encoder_flops(layers, units, case.size)
    decoder = 6 * masks * (units**2 + units * _BERT_VOCABULARY)
    return float(encoder + decoder)


def numbers(network: str) -> list[int]:
    """Return the numbers of a network's name: 12, 768 and 12 of ``bert_12_768_12``."""
    return [int(part) for part in network.split("_")[1:]]


def gpt_mesh(case: Case) -> tuple[int, int, int]:
    """Return the ranks along data, tensor and pipeline of a case of GPT."""
    found = re.match(r"(\d+)x(\d+)x(\d+)", case.mode)
    if found is None:
        return case.ranks, 1, 1
    data, tensor, pipeline = map(int, found.groups())
    return data, tensor, pipeline


def _gpt_flops(case: Case) -> float:
    layers, units, _, vocabulary = numbers(case.network)
    if case.mode == SAMPLING:  # a token; attention reads the prompt at least
        return 24 * layers * units**2 + 4 * layers * units * case.size + 2 * units * vocabulary
    return iteration_flops(1, case.size, layers, units, vocabulary)


def _published_gpt(dtype: str) -> list[Row]:
    """Return DLPerf's 18 cases, whose networks have 51200 tokens."""
    rows = []
    for name in PUBLISHED_GPT:
        found = published_case(name)
        mesh = f"{found.data}x{found.tensor}x{found.pipeline}"
        network = f"gpt_{found.layers}_{found.hidden}_{found.heads}_51200"
        mode = f"{mesh}_m{found.micro_batch}_recompute"
        ranks = found.data * found.tensor * found.pipeline
        batch = found.batch // found.data
        rows.append(Row(dtype, batch, GPT_LENGTH, network, mode, ranks, data=("resident",)))
    return rows


def _wide_deep_flops(case: Case) -> float:
    """Return the operations of the dense layers; tables have none."""
    dim, layers = numbers(case.network)
    inputs = DEEP_FIELDS * dim + NUMBERS
    return 6.0 * (inputs * HIDDEN + (layers - 1) * HIDDEN**2 + HIDDEN)


# Multiply-adds forward for a face of 112 x 112 pixels, and features, by network.
_FACES = {"r100": (12.09e9, 512), "r50": (6.31e9, 512), "y1": (0.221e9, 128)}


def _face_flops(case: Case) -> float:
    """Return the operations of the network, and of the product with the classes of a step."""
    macs, features = _FACES[case.network.split("_")[0]]
    (classes,) = numbers(case.network)
    ratio = float(case.mode.partition("partial_")[2] or 1)
    return 6.0 * (macs * (case.size / 112) ** 2 + features * classes * ratio)


_NATURAL = 2322444  # rows of Criteo's table


def _vocabularies(batch: int, rows: Sequence[int], network: str, **more: int) -> list[Row]:
    """Return cases of Wide & Deep whose tables have different numbers of rows."""
    return [Row("float32", batch, n, network, data=("resident",), **more) for n in rows]


def _batches(batches: Sequence[int], rows: int, network: str, **more: int) -> list[Row]:
    """Return cases of Wide & Deep with different batches."""
    return [Row("float32", n, rows, network, data=("resident",), **more) for n in batches]


def _faces(batch: int, network: str, **more: int) -> list[Row]:
    """Return cases of one network with replicated, divided and sampled classes."""
    modes = ("data", "model", "partial_0.1")
    return [Row("float32", batch, 112, network, mode, **more) for mode in modes]


_BERT_BASE, _SMALL_BERT = "bert_12_768_12", "bert_2_128_2"
_GPT_SMALL, _GPT_BASE, _GPT_LARGE = "gpt_2_128_2_512", "gpt_12_768_12_50304", "gpt_16_1536_16_51200"
_FEW = {"warm_up": 2, "steps": 5}
_HALVES = ("float16", "bfloat16")

MODELS = {
    model.name: model
    for model in (
        Model(
            "resnet50",
            "rn50",
            "images",
            {
                "smoke": [Row("float32", 8, 112, **_FEW)],
                "cpu": [Row(dtype, 16, 224) for dtype in ("float32", "bfloat16")],
                "gpu": [Row(dtype, 256, 224) for dtype in _HALVES]
                + [Row(dtype, 128, 224) for dtype in ("float32", "tf32")],
            },
            _resnet50_flops,
        ),
        Model(
            "bert",
            "bert",
            "sequences",
            {
                "smoke": [Row("float32", 8, 64, _SMALL_BERT, **_FEW)],
                "cpu": [Row(dtype, 8, 128, _BERT_BASE) for dtype in ("float32", "bfloat16")],
                "gpu": [
                    Row(dtype, batch, 128, _BERT_BASE) for batch in (64, 128) for dtype in _HALVES
                ]
                + [Row(dtype, 32, 128, _BERT_BASE) for dtype in ("float32", "tf32")],
            },
            _bert_flops,
            sizes=(8, 512),  # a shorter sequence has no mask
        ),
        Model(
            "gpt",
            "gpt",
            "sequences",
            {
                "smoke": [
                    Row("float32", 4, 128, _GPT_SMALL, **_FEW),
                    Row("float32", 8, 128, _GPT_SMALL, "1x2x1", 2, 2, 5, ("resident",)),
                    Row("float32", 1, 32, _GPT_SMALL, SAMPLING, 1, 5, 20, ("resident",)),
                ],
                "cpu": [Row(dtype, 2, 1024, _GPT_BASE) for dtype in ("float32", "bfloat16")]
                + [
                    Row(dtype, 1, 128, _GPT_BASE, SAMPLING, 1, data=("resident",))
                    for dtype in ("float32", "bfloat16")
                ],
                "gpu": [
                    *(Row(dtype, 8, 2048, _GPT_BASE) for dtype in _HALVES),
                    *(Row("bfloat16", batch, 2048, _GPT_LARGE) for batch in (2, 8)),
                    Row("bfloat16", 1, 128, _GPT_BASE, SAMPLING, 1, data=("resident",)),
                    *_published_gpt("float16"),
                ],
            },
            _gpt_flops,
            copies=lambda case: gpt_mesh(case)[0],
            recomputed=lambda case: 1 / 3 if case.mode.endswith("recompute") else 0.0,
            sizes=(2, 2048),
        ),
        Model(
            "wide_deep",
            "wdl",
            "rows",
            {
                "smoke": _vocabularies(512, (100_000, 200_000, 400_000), "wdl_16_2", **_FEW)
                + _batches((2048,), 100_000, "wdl_16_2", **_FEW),
                "cpu": _vocabularies(2048, [3_200_000 << k for k in range(4)], "wdl_16_2")
                + _batches((512, 8192), _NATURAL, "wdl_16_2"),
                "gpu": _vocabularies(16384, [3_200_000 << k for k in range(8)], "wdl_16_7")
                + _batches([512 << k for k in range(11)], _NATURAL, "wdl_16_2"),
            },
            _wide_deep_flops,
            sizes=(1, 1 << 31),
            alone=("torch",),
        ),
        Model(
            "insightface",
            "",
            "images",
            {
                "smoke": _faces(8, "y1_10000", **_FEW),
                "cpu": _faces(32, "y1_100000"),
                "gpu": [*_faces(64, "r100_85742"), *_faces(256, "y1_85742")],
            },
            _face_flops,
        ),
    )
}
