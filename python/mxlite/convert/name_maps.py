"""Names that the weights of other libraries have in mxlite."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Callable, NamedTuple

from .. import ndarray as nd
from ..base import ValueError_
from ..gluon.contrib.nn.transformer.convert import (
    SOURCES,
    converted_weights,
    network_for,
    restored_weights,
    without_module,
)
from ..gluon.model_zoo import vision
from ..gluon.model_zoo.vision.resnet import DEPTHS
from ..gluon.parameter.files import strip_kind
from ..ndarray import NDArray

Arrays = Mapping[str, NDArray]


class Row(NamedTuple):
    """An array of the result, and the names of its sources."""

    name: str
    sources: tuple[str, ...]
    array: NDArray


class Mapped(NamedTuple):
    """Rows, and the faults of the sources: unused ones, missing names, wrong shapes."""

    rows: list[Row]
    left: list[str]
    problems: list[str]


_NORM = (("weight", "gamma"), ("bias", "beta"))
_COUNTERS = re.compile(r"(.*\.)?num_batches_tracked")
_RECURRENT = re.compile(r"(.*\.|)(weight|bias)_(ih|hh|hr)_l(\d+)(_reverse)?")
_STEPS = {"ih": "i2h", "hh": "h2h", "hr": "h2r"}  # PyTorch's and Gluon's names


def _layer_name(name: str, arrays: Arrays) -> str:
    """Return the name that a layer of Gluon has for a parameter of a layer of PyTorch."""
    recurrent = _RECURRENT.fullmatch(name)
    if recurrent:
        start, kind, part, layer, reverse = recurrent.groups()
        two_ways = f"{start}{kind}_{part}_l{layer}_reverse" in arrays or reverse
        cell = f"{'r' if reverse else 'l'}_cell." if two_ways else ""
        return f"{start}_unfused.{layer}.{cell}{_STEPS[part]}_{kind}"
    module, _, leaf = name.rpartition(".")
    dot = f"{module}." if module else ""
    weight = arrays.get(f"{dot}weight")
    if weight is None or len(weight.shape) != 1:
        return name
    if leaf == "weight" and f"{dot}bias" not in arrays and f"{dot}running_mean" not in arrays:
        return f"{dot}alpha"  # a PReLU
    return dot + dict(_NORM).get(leaf, leaf)


_OURS_RECURRENT = re.compile(
    r"(.*\.|)_unfused\.(\d+)\.(?:([lr])_cell\.)?(i2h|h2h|h2r)_(weight|bias)"
)
_TO_TORCH = {**{ours: theirs for theirs, ours in _NORM}, "alpha": "weight"}
_TORCH_STEPS = {ours: theirs for theirs, ours in _STEPS.items()}


def _torch_name(name: str) -> str:
    """Return PyTorch's name of a layer's parameter with this Gluon name."""
    recurrent = _OURS_RECURRENT.fullmatch(name)
    if recurrent:
        start, layer, side, step, kind = recurrent.groups()
        return f"{start}{kind}_{_TORCH_STEPS[step]}_l{layer}{'_reverse' if side == 'r' else ''}"
    module, dot, leaf = name.rpartition(".")
    return module + dot + _TO_TORCH.get(leaf, leaf)


def _layers_back(arrays: Arrays) -> Mapped:
    return Mapped([Row(_torch_name(n), (n,), array) for n, array in arrays.items()], [], [])


def _without_counters(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if not _COUNTERS.fullmatch(name)}


def _layers(arrays: Arrays) -> Mapped:
    kept = _without_counters(arrays)
    rows = [Row(_layer_name(name, kept), (name,), array) for name, array in kept.items()]
    return Mapped(rows, [], [])


def _depths(arrays: Arrays, block: str = r"^layer([1-4])\.(\d+)\.") -> list[int]:
    """Return the number of blocks in each stage of a ResNet; ``block`` matches parts of names."""
    found = [re.search(block, name) for name in arrays]
    blocks = {(int(match[1]), int(match[2])) for match in found if match}
    return [sum(stage == number for stage, _ in blocks) for number in range(1, 5)]


def _resnet(arrays: Arrays) -> Mapped:
    depths, wide = _depths(arrays), "layer1.0.conv3.weight" in arrays
    sizes = [size for size, (deep, stages) in DEPTHS.items() if (deep, [*stages]) == (wide, depths)]
    if not sizes or "fc.weight" not in arrays:
        raise ValueError_(
            f"convert: a ResNet must have fc.weight and layers of {', '.join(map(str, DEPTHS))} "
            f"convolutions, got stages of {depths} blocks"
        )
    classes = arrays["fc.weight"].shape[0]
    net = vision.get_model(f"resnet{sizes[0]}_v1b", classes=classes)
    expected = {name: param.shape for name, param in net._collect_params_with_prefix().items()}
    rows = _layers(arrays).rows
    return Mapped(
        [row for row in rows if row.name in expected],
        [row.sources[0] for row in rows if row.name not in expected],
        [f"{name} is missing" for name in set(expected) - {row.name for row in rows}]
        + [
            f"{row.name} must have shape {expected[row.name]}, got {row.array.shape}"
            for row in rows
            if expected.get(row.name, row.array.shape) != row.array.shape
        ],
    )


def _resnet_back(arrays: Arrays) -> Mapped:
    """Return the arrays of a zoo network under torchvision's names; `_resnet` checks the names."""
    back = _layers_back(arrays)
    again = _resnet({name: array for name, _, array in back.rows})
    return Mapped(back.rows, again.left, again.problems)


def _iresnet_names(depths: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield names of insightface's iresnet, and those of its symbols for MXNet."""

    def norm(theirs: str, ours: str) -> Iterator[tuple[str, str]]:
        for leaf, name in _NORM:
            yield f"{theirs}.{leaf}", f"arg:{ours}_{name}"
        for statistic in ("mean", "var"):
            yield f"{theirs}.running_{statistic}", f"aux:{ours}_moving_{statistic}"

    yield "conv1.weight", "arg:conv0_weight"
    yield from norm("bn1", "bn0")
    yield "prelu.weight", "arg:relu0_gamma"
    for stage, depth in enumerate(depths, 1):
        for block in range(depth):
            theirs, ours = f"layer{stage}.{block}", f"stage{stage}_unit{block + 1}"
            for number in (1, 2, 3):
                yield from norm(f"{theirs}.bn{number}", f"{ours}_bn{number}")
            for number in (1, 2):
                yield f"{theirs}.conv{number}.weight", f"arg:{ours}_conv{number}_weight"
            yield f"{theirs}.prelu.weight", f"arg:{ours}_relu1_gamma"
            if block == 0:
                yield f"{theirs}.downsample.0.weight", f"arg:{ours}_conv1sc_weight"
                yield from norm(f"{theirs}.downsample.1", f"{ours}_sc")
    yield from norm("bn2", "bn1")
    yield "fc.weight", "arg:pre_fc1_weight"
    yield "fc.bias", "arg:pre_fc1_bias"
    yield from norm("features", "fc1")


def _renamed(arrays: Arrays, names: Mapping[str, str]) -> Mapped:
    """Return the arrays under the names of ``names``, which lists all required names."""
    return Mapped(
        [Row(names[name], (name,), array) for name, array in arrays.items() if name in names],
        [name for name in arrays if name not in names],
        [f"{name} is missing" for name in names if name not in arrays],
    )


def _iresnet(arrays: Arrays) -> Mapped:
    return _renamed(_without_counters(arrays), dict(_iresnet_names(_depths(arrays))))


def _iresnet_back(arrays: Arrays) -> Mapped:
    depths = _depths(arrays, r"stage([1-4])_unit(\d+)_")
    return _renamed(
        arrays, {without_module(ours): theirs for theirs, ours in _iresnet_names(depths)}
    )


def _transformer_back(source: str, arrays: Arrays) -> Mapped:
    found = restored_weights(arrays, source)
    rows = [Row(name, (ours,), nd.array(part, dtype=part.dtype)) for name, ours, part in found]
    return Mapped(rows, [], [])


def _transformer(source: str, arrays: Arrays) -> Mapped:
    found, left = converted_weights(network_for(arrays, source), arrays, source)
    made: dict[int, NDArray] = {}  # tied weights are one array
    for _, _, values in found:
        if id(values) not in made:
            made[id(values)] = nd.array(values, dtype=values.dtype)
    return Mapped([Row(name, parts, made[id(values)]) for name, parts, values in found], left, [])


class Map(NamedTuple):
    """A conversion of names: its description, and the functions that do it and undo it."""

    what: str
    there: Callable[[Any], Mapped]
    back: Callable[[Any], Mapped]


MAPS: dict[str, Map] = {
    "layers": Map(
        "layers of PyTorch to Gluon's with the same attribute names", _layers, _layers_back
    ),
    "resnet": Map("torchvision's ResNets to resnet18_v1b ... resnet152_v1b", _resnet, _resnet_back),
    "iresnet": Map(
        "insightface's iresnet to the symbols of its MXNet version", _iresnet, _iresnet_back
    ),
    **{
        source: Map(
            f"{source} to the networks of gluon.contrib.nn",
            partial(_transformer, source),
            partial(_transformer_back, source),
        )
        for source in SOURCES
    },
}


def mapped(name: str, arrays: Arrays, back: bool = False) -> Mapped:
    """Apply a map to arrays; names may begin with prefixes that wrappers added.

    With ``back``, the arrays have mxlite's names, and the result those of the other library.
    """
    function = MAPS[name].back if back else MAPS[name].there
    return function({without_module(name): array for name, array in arrays.items()})


def unchanged(arrays: Arrays, keep_kinds: bool) -> Mapped:
    """Keep the names, but without ``arg:`` and ``aux:`` unless kinds are kept."""
    rows, problems, taken = [], [], set()
    for name, array in arrays.items():
        short = name if keep_kinds else strip_kind(name)
        if short in taken:
            problems.append(f"{name} and another array would both be {short}")
        taken.add(short)
        rows.append(Row(short, (name,), array))
    return Mapped(rows, [], problems)
