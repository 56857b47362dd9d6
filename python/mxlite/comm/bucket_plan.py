"""Divides gradients into buckets, equally on all ranks, and tunes the buckets' size at run time."""

from __future__ import annotations

import math
import os
import re
import statistics
import struct
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeVar

import numpy as np

from .. import _core
from ..base import CommunicatorError, ValueError_
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from .groups import Group, exchange_bytes, exchange_texts

_Item = TypeVar("_Item")
_MB = 1 << 20
_VARIABLE = "MXLITE_BUCKET_MB"
_HALVES = ("float16", "bfloat16")
# Bucket sizes in bytes, in the order in which they are tried.
_SIZES = (25 * _MB, 8 * _MB, 3 * _MB)
# Number of steps with each size; the first ones are not timed, because they allocate memory.
_TRIAL_STEPS, _SKIPPED_STEPS = 12, 4
# A size replaces the best one so far if its steps take less than this fraction of the time.
_GAIN = 0.98


def wire_dtype(array: NDArray, wire: str | None) -> str:
    """Return the dtype in which a gradient is sent."""
    own = dtype_name(array.dtype)
    return wire if wire is not None and "float" in own and own not in _HALVES else own


def kind_of(array: NDArray, wire: str | None) -> tuple[str, int]:
    """Return the properties that are equal for all gradients of a bucket, and the bytes to send."""
    own, travels = dtype_name(array.dtype), wire_dtype(array, wire)
    width = 2 if travels in _HALVES else np.dtype(array.dtype).itemsize
    place = "GPU" if array.ctx.device_type == "gpu" else "CPU"
    kind = own if own == travels else f"{own} as {travels}"
    return f"{kind} on the {place}", array.size * width


def agree(
    label: str, group: Group, gradients: Mapping[str, NDArray], options: str, wire: str | None
) -> tuple[list[str], bool]:
    """Raise if ranks have different gradients; return the order in which rank 0 computes them.

    The second result is whether rank 0 knew the order. All ranks of the group must call this at the
    same point of their sequence of calls.
    """
    import hashlib  # imported on use, because it loads OpenSSL (4 MB)

    names = list(gradients)
    lines = [
        f"{name} {tuple(array.shape)} {kind_of(array, wire)[0]}"
        for name, array in zip(_relative(names), gradients.values())
    ]
    text = "\n".join([options, *lines])
    content = hashlib.sha256(text.encode()).digest()
    hash_bytes = len(content)
    if group.index == 0:
        order, learned = backward_order(list(gradients.values()))
        content += np.array([learned, *order], dtype="<i4").tobytes()
    parts = exchange_bytes(group, content, f"{label}: plan of buckets", ordered=True)
    if len({part[:hash_bytes] for part in parts}) > 1:
        texts = exchange_texts(group, text, f"{label}: gradients", ordered=True)
        _raise_difference(label, group, texts)
    numbers = np.frombuffer(parts[0], "<i4", offset=hash_bytes).tolist()
    return [names[i] for i in numbers[1:]], bool(numbers[0])


def backward_order(gradients: Sequence[NDArray]) -> tuple[list[int], bool]:
    """Return the order in which backward computes gradients, and whether it is fully known."""
    positions = _core.gradient_positions(list(gradients))
    # Gradients of unknown position come last, in reverse order of the parameters.
    order = sorted(range(len(positions)), key=lambda i: (positions[i] == 0, positions[i], -i))
    return order, all(positions)


def _relative(names: Sequence[str]) -> list[str]:
    """Shift the numbers in names to start from 0, because processes number blocks differently."""
    cut = [re.split(r"(\d+)", name) for name in names]
    lowest: dict[str, int] = {}
    for parts in cut:
        for stem, number in zip(parts[::2], parts[1::2]):
            lowest[stem] = min(lowest.get(stem, int(number)), int(number))
    return [
        "".join(
            str(int(part) - lowest[parts[k - 1]]) if k % 2 else part for k, part in enumerate(parts)
        )
        for parts in cut
    ]


def _raise_difference(label: str, group: Group, texts: Sequence[str]) -> NoReturn:
    lists = [text.split("\n") for text in texts]
    for place in range(max(map(len, lists))):
        sides: dict[str, list[str]] = {}
        for rank, lines in zip(group.ranks, lists):
            line = lines[place] if place < len(lines) else "nothing"
            sides.setdefault(line, []).append(str(rank))
        if len(sides) > 1:
            break
    both = " and ".join(
        f"{line!r} on rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"
        for line, ranks in sides.items()
    )
    what = f"gradient {place - 1} is" if place else "options are"
    raise CommunicatorError(
        f"{label}: the ranks do not sum the same gradients: {what} {both}; every rank must give "
        "the same parameters in the same order, and the same options"
    )


def near_equal_parts(items: Sequence[_Item], count: int) -> list[list[_Item]]:
    """Split a sequence into at most ``count`` runs whose lengths differ by at most 1."""
    count = min(count, len(items))
    parts, begin = [], 0
    for i in range(count):
        end = begin + len(items) // count + (i < len(items) % count)
        parts.append(list(items[begin:end]))
        begin = end
    return parts


def packed(
    order: Sequence[str], kinds: Mapping[str, tuple[str, int]], most_bytes: float = math.inf
) -> list[list[str]]:
    """Return buckets of at most ``most_bytes``, each with gradients of one kind, in order."""
    full: list[list[str]] = []
    filling: dict[str, tuple[list[str], int]] = {}
    for name in order:
        kind, size = kinds[name]
        names, total = filling.get(kind, ([], 0))
        if names and total + size > most_bytes:
            full.append(names)
            names, total = [], 0
        filling[kind] = [*names, name], total + size
    return full + [names for names, _ in filling.values()]


class BucketSizes:
    """The size of buckets: tries several sizes and keeps the one with the fastest steps.

    Attributes
    ----------
    current : int
        Size in bytes.
    done : bool
        Whether the size is final.
    """

    def __init__(self, name: str) -> None:
        fixed = _fixed_bytes()
        self.current = fixed or _SIZES[0]
        self._name = name
        self._fixed = fixed is not None
        self.done = self._fixed
        self._times: list[list[float]] = [[]]
        self._last: float | None = None

    def __str__(self) -> str:
        return f"buckets of {self.current} bytes" if self._fixed else "buckets of tuned sizes"

    def count_step(self, kinds: Mapping[str, tuple[str, int]], group: Group) -> bool:
        """Time a step; return whether the size changed. All ranks must call this equally often."""
        if sum(size for _, size in kinds.values()) <= _SIZES[-1]:
            self.done = True  # all sizes would give the same buckets
            return False
        now = time.perf_counter()
        if self._last is not None:
            self._times[-1].append(now - self._last)
        self._last = now
        if len(self._times[-1]) < _TRIAL_STEPS:
            return False
        before = self.current
        if len(self._times) < len(_SIZES):
            self._times.append([])
            self.current = _SIZES[len(self._times) - 1]
        else:
            self.done = True
            self.current = self._shortest(group)
        return self.current != before

    def _shortest(self, group: Group) -> int:
        mine = [statistics.median(times[_SKIPPED_STEPS:]) for times in self._times]
        form = struct.Struct(f"<{len(mine)}d")
        parts = exchange_bytes(group, form.pack(*mine), self._name, ordered=True)
        # The slowest rank determines the time of a step.
        slowest = [max(times) for times in zip(*map(form.unpack, parts))]
        best = 0
        for k, seconds in enumerate(slowest):
            if seconds < _GAIN * slowest[best]:
                best = k
        return _SIZES[best]


def _fixed_bytes() -> int | None:
    """Return the size that the variable sets; None if the size is tuned."""
    text = os.environ.get(_VARIABLE, "").strip()
    if not text:
        return None
    try:
        size = float(text)
    except ValueError:
        size = -1.0
    if not 0 < size < 1 << 20:
        raise ValueError_(
            f"environment variable {_VARIABLE} must be a number of MB above 0, got {text!r}"
        )
    return max(1, int(size * _MB))
