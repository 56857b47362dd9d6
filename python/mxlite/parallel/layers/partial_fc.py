"""Margin softmax over class centres that are divided among ranks and chosen in each step."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import autograd
from ... import ndarray as nd
from ..._typed_init import check_sizes
from ...base import FileFormatError, MXNetError, NotSupportedError, ShapeError, ValueError_
from ...comm.groups import exchange_texts, group_of
from ...context import Context, current_context
from ...ndarray import NDArray
from ..shard import shard_bounds
from .loss import joined_logsumexp, margin_options
from .shards import entering, shard_sizes, summed

__all__ = ["PartialFC"]

_INITIAL_STD = 0.01
_ROWS_DRAWN = 4096  # rows that are initialized at a time, with a seed of their own
_FILE = re.compile(r"centres-(\d{5})-of-(\d{5})\.params")


class PartialFC:
    """Margin softmax over class centres: the last layer, loss and optimizer of face recognition.

    Each rank of a process set has the centres of some classes, and gives samples of its own.
    Embeddings and labels of all ranks are gathered; each rank compares them with some of its
    centres: those of the labels and, if ``sample_ratio`` is below 1, others chosen at random
    without replacement (partial FC). The softmax goes over the chosen centres of all ranks.

    ``head(embedding, label)``: embedding ``(batch, in_units)``, which is normalized here, and label
    ``(batch,)``. Returns the losses of this rank's samples, float32 ``(batch,)``. After backward,
    ``head.step(batch_size)`` updates the chosen centres. Gradients of the embeddings are those of
    the sum of all ranks' losses, for `horovod.DistributedTrainer` as with any data parallel loss.

    Parameters
    ----------
    num_classes : int
        Number of all classes, at least one for each rank; shards differ by one class at most.
    in_units : int
        Size of an embedding.
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    sample_ratio : float
        Share of its centres that a rank compares with, above 0 and at most 1. There are more if
        the batch of all ranks has more labels.
    margins : tuple of (float, float, float)
        The cosine ``cos(t)`` of the label's class becomes ``cos(margins[0] * t + margins[1]) -
        margins[2]``. ArcFace has ``(1, 0.5, 0)``, CosFace ``(1, 0, 0.4)``.
    scale : float
        Factor of the cosines, after the margin.
    learning_rate, momentum, wd : float
        Options of SGD, which is lazy: centres that were not chosen keep their momentum, and have no
        weight decay. ``head.learning_rate`` may be changed between steps.
    seed : int
        Seed of the initial centres, which do not depend on the number of ranks. Together with the
        number of the step and the rank's first class, it also determines which centres are chosen.
    ctx : Context, optional

    Attributes
    ----------
    weight, momentum : NDArray
        Centres of this rank's classes and their momentum, float32 ``(classes, in_units)``.
    classes : range
        This rank's classes.

    Raises
    ------
    ValueError, ShapeError
        If an argument is out of its range, or a rank would have no class.
    IndexError
        On all ranks when the losses are read, if a label is not a class.

    Notes
    -----
    A class takes 8 * in_units bytes (centre and momentum) and, for a batch B of all ranks,
    4 * B * sample_ratio bytes of cosines, whose gradient is written over them. No copy of the
    centres and no gradient of them is stored.

    Examples
    --------
    >>> head = parallel.PartialFC(1000000, 512, "data", sample_ratio=0.1)
    >>> with autograd.record():
    ...     losses = head(net(images), labels)
    >>> losses.backward()
    >>> trainer.step(len(images))
    >>> head.step(len(images))
    """

    def __init__(
        self,
        num_classes: int,
        in_units: int,
        process_set: Any = None,
        *,
        sample_ratio: float = 1.0,
        margins: Sequence[float] = (1.0, 0.5, 0.0),
        scale: float = 64.0,
        learning_rate: float = 0.1,
        momentum: float = 0.9,
        wd: float = 5e-4,
        seed: int = 0,
        ctx: Context | None = None,
    ) -> None:
        check_sizes("PartialFC", 1, num_classes=num_classes, in_units=in_units)
        if not 0 < sample_ratio <= 1:
            raise ValueError_(
                f"PartialFC: sample_ratio must be above 0 and at most 1, got {sample_ratio}"
            )
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError_(f"PartialFC: scale must be above 0, got {scale}")
        self._margin = margin_options("PartialFC", margins, scale)
        self._group = group = group_of("PartialFC", process_set)
        sizes = shard_sizes("PartialFC", "num_classes", num_classes, group, allow_uneven=True)
        first, size = sum(sizes[: group.index]), sizes[group.index]
        self.classes = range(first, first + size)
        self._num_classes, self._in_units, self._seed = num_classes, in_units, seed
        self.learning_rate, self._factor, self._wd = learning_rate, momentum, wd
        self._sampling: dict[str, Any] = {
            "classes": num_classes,
            "first": first,
            "size": size,
            "count": math.ceil(sample_ratio * size),
            "seed": seed,
        }
        self._steps = 0
        self._pending: tuple[NDArray, NDArray, NDArray] | None = None
        self._ctx = current_context() if ctx is None else ctx
        self.weight = nd.empty((size, in_units), ctx=self._ctx)
        self.momentum = nd.zeros((size, in_units), ctx=self._ctx)
        self._draw()

    def _draw(self) -> None:
        first, end = self.classes.start, self.classes.stop
        for block in range(first // _ROWS_DRAWN, -(-end // _ROWS_DRAWN)):
            begin = block * _ROWS_DRAWN
            shape = (min(_ROWS_DRAWN, self._num_classes - begin), self._in_units)
            rows = np.random.default_rng((self._seed, block)).standard_normal(shape, np.float32)
            low, high = max(begin, first), min(begin + len(rows), end)
            part = rows[low - begin : high - begin] * np.float32(_INITIAL_STD)
            self.weight[low - first : high - first] = nd.array(part, ctx=self._ctx)
            self.weight.wait_to_read()  # at most one block is in flight

    def __call__(self, embedding: NDArray, label: NDArray) -> NDArray:
        """Return the losses of this rank's samples."""
        if len(embedding.shape) != 2 or embedding.shape[1] != self._in_units:
            raise ShapeError(
                f"PartialFC: embedding must have shape (batch, {self._in_units}), got "
                f"{tuple(embedding.shape)}"
            )
        if tuple(label.shape) != tuple(embedding.shape[:1]):
            raise ShapeError(
                f"PartialFC: label must have shape ({embedding.shape[0]},), got "
                f"{tuple(label.shape)}"
            )
        unit = nd.L2Normalization(embedding.astype("float32", copy=False))
        return _Losses(self, label)(unit)

    def step(self, batch_size: int) -> None:
        """Update the centres with the gradient of the last backward, averaged over all ranks.

        Parameters
        ----------
        batch_size : int
            Samples of a rank, as in `horovod.DistributedTrainer.step`.

        Raises
        ------
        MXNetError
            If there was no backward since the last step.
        """
        check_sizes("PartialFC.step", 1, batch_size=batch_size)
        if self._pending is None:
            raise MXNetError("PartialFC.step: the losses' backward must be called before each step")
        rows, unit, grad = self._pending
        nd.contrib.class_centres_update(
            self.weight,
            self.momentum,
            rows,
            unit,
            grad,
            lr=self.learning_rate,
            momentum=self._factor,
            wd=self._wd,
            rescale_grad=1.0 / (batch_size * self._group.size),
            out=self.weight,
        )
        self._pending = None
        self._steps += 1

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write this rank's centres, momentum and number of steps; all ranks call it.

        The folder gets one file for each rank. It must not have files of another number of ranks.
        """
        failure = ""
        try:
            os.makedirs(folder, exist_ok=True)
            content = {"weight": self.weight, "momentum": self.momentum}
            content["state"] = nd.array(self._state(), dtype="int64")
            nd.save(self._path(folder, self._group.index, self._group.size), content)
        except (OSError, MXNetError) as error:
            failure = str(error)
        self._agree("PartialFC.save", failure)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Read what any number of ranks has saved; all ranks call it.

        Raises
        ------
        MXNetError
            On all ranks, if files are missing or damaged, or do not belong together.
        """
        failure, steps = "", -1
        try:
            steps = self._read(folder)
        except (OSError, MXNetError) as error:
            failure = str(error)
        found = self._agree("PartialFC.load", failure, steps)
        if len(set(found)) > 1:
            raise FileFormatError(
                f"PartialFC.load: the files in {os.fspath(folder)!r} must be of one save, got "
                f"steps {', '.join(map(str, sorted(set(found))))}"
            )
        self._steps = steps
        self._pending = None

    def _state(self) -> list[int]:
        return [self._num_classes, self._in_units, self._steps]

    @staticmethod
    def _path(folder: str | os.PathLike[str], index: int, size: int) -> str:
        return os.path.join(folder, f"centres-{index:05d}-of-{size:05d}.params")

    def _read(self, folder: str | os.PathLike[str]) -> int:
        """Fill weight and momentum from the files that have rows of this rank; return the steps."""
        names = [name for name in map(_FILE.fullmatch, os.listdir(folder)) if name]
        sizes = {int(name[2]) for name in names}
        if len(sizes) != 1 or len(names) != max(sizes):
            raise FileFormatError(
                f"PartialFC.load: {os.fspath(folder)!r} must have the files of all ranks of one "
                f"save, got {', '.join(sorted(name[0] for name in names)) or 'none'}"
            )
        size = sizes.pop()
        steps = set()
        first = self.classes.start
        for index in range(size):
            begin, end = shard_bounds(self._num_classes, size, index)
            low, high = max(begin, first), min(end, self.classes.stop)
            if low >= high:
                continue
            path = self._path(folder, index, size)
            content = nd.load(path)
            state = content["state"].asnumpy().tolist() if "state" in content else []
            shape = (end - begin, self._in_units)
            if state[:2] != self._state()[:2] or any(
                content[name].shape != shape for name in ("weight", "momentum")
            ):
                raise FileFormatError(
                    f"PartialFC.load: {path!r} must have centres of {self._num_classes} classes "
                    f"and {self._in_units} units, got {state[:2]}"
                )
            steps.add(state[2])
            for name in ("weight", "momentum"):
                rows = content[name][low - begin : high - begin]
                getattr(self, name)[low - first : high - first] = rows.as_in_context(self._ctx)
        return steps.pop() if len(steps) == 1 else -1

    def _agree(self, what: str, failure: str, value: int = 0) -> list[int]:
        """Raise on all ranks if one has failed; return the values of all ranks."""
        texts = exchange_texts(self._group, json.dumps([failure, value]), what)
        answers = [json.loads(text) for text in texts]
        for rank, (problem, _) in zip(self._group.ranks, answers):
            if problem:
                raise FileFormatError(f"{what}: rank {rank} has failed: {problem}")
        return [theirs for _, theirs in answers]

    def __repr__(self) -> str:
        return (
            f"PartialFC({self._in_units} -> {self._num_classes}, {self._sampling['count']} chosen "
            f"of classes {self.classes.start} to {self.classes.stop - 1}, rank "
            f"{self._group.index} of {self._group.size})"
        )


class _Losses(autograd.Function):
    """Losses of this rank's samples; backward keeps the gradient of the cosines for the step."""

    def __init__(self, head: PartialFC, label: NDArray) -> None:
        super().__init__()
        self._head, self._label = head, label

    def forward(self, *inputs: NDArray) -> NDArray:
        """Return the losses of normalized embeddings (batch, in_units)."""
        head, group = self._head, self._head._group
        unit = entering(nd, inputs[0], group, sequence_axis=0)
        label = entering(nd, self._label, group, sequence_axis=0)
        step = nd.array([head._steps], ctx=unit.ctx, dtype="int64")
        rows, position = nd.contrib.sample_classes(label, step, **head._sampling)
        cosines = nd.contrib.class_cosines(unit, head.weight, rows)
        parts = nd.contrib.margin_logsumexp(cosines, position, **head._margin)
        total, target, relative = joined_logsumexp(nd, parts, group)
        self.save_for_backward(unit, rows, position, cosines, parts[0], relative)
        batch = self._label.shape[0]
        losses = total - target
        return nd.slice_axis(
            losses, axis=0, begin=group.index * batch, end=(group.index + 1) * batch
        )

    def backward(self, *output_grads: NDArray) -> NDArray:
        """Return the gradient of this rank's embeddings."""
        if autograd.is_recording():
            raise NotSupportedError("PartialFC: gradients of gradients are not supported")
        head, group = self._head, self._head._group
        unit, rows, position, cosines, highest, total = self.saved_tensors
        self.saved_tensors = None
        grad = entering(nd, output_grads[0], group, sequence_axis=0)
        nd.contrib.margin_logsumexp_backward(
            cosines, position, highest, total, grad, -grad, out=cosines, **head._margin
        )
        head._pending = rows, unit, cosines
        unit_grad = nd.contrib.class_cosines_backward(cosines, head.weight, rows)
        return summed(nd, unit_grad, group, sequence_axis=0)
