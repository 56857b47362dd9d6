"""Sums gradients over ranks in buckets while backward computes the next gradients.

All ranks sum the same buckets in the same order, so no negotiation by name is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _core, autograd
from .. import ndarray as nd
from ..base import InputError
from ..context import Context, cpu
from ..ndarray import NDArray
from .bucket_plan import BucketSizes, agree, kind_of, near_equal_parts, packed, wire_dtype
from .groups import Group
from .job import JOB


class _Bucket:
    """Gradients that are summed together."""

    def __init__(
        self, names: list[str], arrays: list[NDArray], in_place: bool, wire: str | None
    ) -> None:
        self.names = names
        # True if `sums` has the dtype of the gradients.
        self.has_sums = wire is None
        place = _core.comm_place(arrays[0])
        context = arrays[0].ctx if place is None else Context(*place)
        dtype = wire_dtype(arrays[0], wire)
        size = _core.bucket_elements(arrays, nd.zeros((1,), dtype=dtype))
        # Separate sums, which a store uses for updates, do not need pinned memory.
        apart = cpu() if context.device_type == "cpu_pinned" else context
        contexts = [context] if in_place else [context, apart]
        memories = [nd.zeros((size,), ctx=each, dtype=dtype) for each in contexts]
        for memory in memories:
            memory.wait_to_read()
        self.core = _core.GradientBucket(arrays, memories[0], memories[-1])
        self.sums = self.core.sums
        self._parts = self.core.parts

    def fill(self, gradients: Sequence[Sequence[NDArray] | None]) -> None:
        """Copy gradients into the bucket, after summing those of several contexts."""
        arrays: list[NDArray | None] = []
        for gradient, part in zip(gradients, self._parts):
            if gradient is None or len(gradient) == 1:
                arrays.append(None if gradient is None else gradient[0])
                continue
            context = gradient[0].ctx
            near = [array.as_in_context(context) for array in gradient]
            if context == part.ctx and near[0].dtype == part.dtype:
                nd.add_n(*near, out=part)
                arrays.append(None)
            else:
                arrays.append(nd.add_n(*near))
        self.core.take(arrays)

    def fits(self, arrays: list[NDArray | None]) -> bool:
        """Return whether arrays (or None) have the properties for which the bucket was made."""
        return self.core.fits(arrays)

    def reduce(self, begin: int, end: int, name: str, number: int, prescale: float) -> None:
        """Sum adjacent gradients over the ranks of a process set."""
        self.core.reduce(begin, end, name, number, prescale)

    def give(self, gradients: Sequence[Sequence[NDArray] | None]) -> None:
        """Copy the sums to the gradients that are not stored in the bucket, on all contexts."""
        for k in range(max(len(gradient or ()) for gradient in gradients)):
            self.core.give([g[k] if g is not None and len(g) > k else None for g in gradients])


class _CodedBucket:
    """Gradients that are sent together, rounded to a few bits per value."""

    has_sums = False

    def __init__(
        self,
        names: list[str],
        arrays: list[NDArray],
        code: tuple[str, float],
        residuals: dict[str, NDArray],
    ) -> None:
        self.names = names
        self.sums: list[NDArray] = []
        self._core = _core.CodedBucket(arrays, *code)
        for name, array in zip(names, arrays):
            known = residuals.get(name)
            if known is None or known.shape != array.shape:
                residuals[name] = nd.zeros_like(array)
        self._residuals = [residuals[name] for name in names]

    def fill(self, gradients: Sequence[Sequence[NDArray] | None]) -> None:
        """Round gradients, after summing those of several contexts."""
        self._core.take(
            [None if g is None else g[0] if len(g) == 1 else _summed(g) for g in gradients],
            self._residuals,
        )

    def fits(self, arrays: list[NDArray | None]) -> bool:
        """Return whether arrays (or None) have the properties for which the bucket was made."""
        return self._core.fits(arrays)

    def reduce(self, begin: int, end: int, name: str, number: int, prescale: float) -> None:
        """Send adjacent gradients to all ranks of a process set."""
        self._core.reduce(begin, end, name, number)

    def give(self, gradients: Sequence[Sequence[NDArray] | None]) -> None:
        """Copy the sums to the gradients on all contexts."""
        self._core.give([None if gradient is None else gradient[0] for gradient in gradients])
        for gradient in gradients:
            for other in (gradient or ())[1:]:
                gradient[0].copyto(other)  # type: ignore[index]


def _summed(arrays: Sequence[NDArray]) -> NDArray:
    """Return the sum of the arrays of several contexts, on the first one."""
    return nd.add_n(*(array.as_in_context(arrays[0].ctx) for array in arrays))


def _runs(chosen: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each run of True."""
    begin = None
    for position, is_chosen in enumerate([*chosen, False]):
        if is_chosen and begin is None:
            begin = position
        elif not is_chosen and begin is not None:
            yield begin, position
            begin = None


class GradientBuckets:
    """Sums the gradients of a training over the ranks of a group.

    Gradients are packed in the order in which backward made them on rank 0 in the first step. A
    bucket is summed as soon as all ranks have filled it. If possible, gradients are stored in their
    bucket after the first step; otherwise each step copies them into the bucket.
    """

    def __init__(
        self,
        label: str,
        *,
        in_place: bool = True,
        wire: str | None = None,
        groups: int = 0,
        code: tuple[str, float] | None = None,
        terms: str = "",
    ) -> None:
        self._terms = terms
        self._label, self._in_place, self._wire, self._groups = label, in_place, wire, groups
        self._code = code
        self._residuals: dict[str, NDArray] = {}
        self._follow_size()
        JOB.followers.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy makes a separate plan, because buckets are memory of this process.
        own = (self._label, self._in_place, self._wire, self._groups, self._code, self._terms)
        return _buckets_like, own

    def _follow_size(self) -> None:
        """Drop the plan, because the job was formed again and new ranks have none."""
        self._known: dict[str, NDArray] = {}  # gradients of the plan, on one context
        self._order: list[str] = []
        self._asks_again = False  # rank 0 did not know the order of backward yet
        self._buckets: list[_Bucket | _CodedBucket] = []
        self._group: Group | None = None
        self._wide: dict[str, NDArray] = {}  # sums converted to the gradients' dtype
        self._sizes = BucketSizes(f"{self._label}: times of steps")

    def sum(
        self,
        names: Sequence[str],
        gradients: Sequence[Sequence[NDArray]],
        group: Group,
        prescale: float = 1.0,
    ) -> list[NDArray]:
        """Start summing gradients over ranks; all ranks of the group must call this."""
        for name, arrays in zip(names, gradients):
            for array in arrays:
                if _core.array_kind(array) != "dense":
                    what = getattr(array, "stype", type(array).__name__)
                    raise InputError(
                        f"{self._label}: gradient {name} must be a dense NDArray, got {what}"
                    )
        # Arrays without elements are not sent.
        given = {name: arrays for name, arrays in zip(names, gradients) if arrays[0].size}
        sums: dict[str, NDArray] = {name: arrays[0] for name, arrays in zip(names, gradients)}
        if len(sums) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(
                f"{self._label}: names of gradients must be distinct, got {twice} twice"
            )
        with autograd.pause():
            self._prepare(given, group, prescale)
            for bucket in self._buckets:
                members = [given.get(name) for name in bucket.names]
                if not any(members):
                    continue
                bucket.fill(members)
                for begin, end in _runs([member is not None for member in members]):
                    name = self._run_name(bucket.names[begin:end])
                    bucket.reduce(begin, end, name, group.number, prescale)
                if self._in_place:
                    bucket.give(members)
                else:
                    sums.update(self._kept_sums(bucket, members))
        return [sums[name] for name in names]

    def _kept_sums(
        self, bucket: _Bucket | _CodedBucket, members: Sequence[Sequence[NDArray] | None]
    ) -> dict[str, NDArray]:
        """Return the sums of a bucket by name, in the gradients' dtype."""
        if bucket.has_sums:
            return dict(zip(bucket.names, bucket.sums))
        targets: list[list[NDArray] | None] = []
        for name, gradient in zip(bucket.names, members):
            if gradient is not None and name not in self._wide:
                like = gradient[0]
                self._wide[name] = nd.empty(like.shape, ctx=like.ctx, dtype=like.dtype)
            targets.append(None if gradient is None else [self._wide[name]])
        bucket.give(targets)
        return {name: self._wide[name] for name, to in zip(bucket.names, targets) if to is not None}

    def _run_name(self, names: Sequence[str]) -> str:
        if len(names) == 1:
            return f"{self._label}: gradient {names[0]}"
        return f"{self._label}: {len(names)} gradients from {names[0]} to {names[-1]}"

    # -- plans -----------------------------------------------------------------------------------

    def _prepare(
        self, given: Mapping[str, Sequence[NDArray]], group: Group, prescale: float
    ) -> None:
        """Make new buckets if the gradients or the bucket size have changed."""
        firsts = {name: arrays[0] for name, arrays in given.items()}
        fits = (
            self._group == group
            and firsts.keys() <= self._known.keys()
            and all(b.fits([firsts.get(n) for n in b.names]) for b in self._buckets)
        )
        if fits and not self._asks_again:
            tunes = self._groups == 0 and not self._sizes.done
            if tunes and self._sizes.count_step(self._kinds(), group):
                self._known.update(firsts)
                self._pack()
            return
        self._known.update(firsts)
        options = (
            f"factor {prescale}, {self._groups or 'any number of'} groups, {self._sizes}, "
            f"codes {self._code}{self._terms and f', {self._terms}'}"
        )
        order, learned = agree(self._label, group, self._known, options, self._wire)
        # A gradient that backward has not computed in two steps is placed last.
        self._asks_again = not learned and not fits
        _core.note_gradient_order(self._asks_again)
        if not fits or order != self._order:
            self._order, self._group = order, group
            self._pack()

    def _kinds(self) -> dict[str, tuple[str, int]]:
        return {name: kind_of(array, self._wire) for name, array in self._known.items()}

    def _pack(self) -> None:
        """Make the buckets for the current order and size, and reuse those that are unchanged."""
        kinds, known = self._kinds(), list(self._known)
        if self._groups > 0:
            parts = near_equal_parts(known, self._groups)
            lists = [names for part in parts for names in packed(part, kinds)]
        else:
            lists = packed(self._order, kinds, self._sizes.current)
        self._wide.clear()
        fresh = []
        for names in lists:
            arrays = [self._known[name] for name in names]
            same = (b for b in self._buckets if b.names == names and b.fits([*arrays]))
            fresh.append(next(same, None) or self._made(names, arrays))
        self._buckets = fresh

    def _made(self, names: list[str], arrays: list[NDArray]) -> _Bucket | _CodedBucket:
        first = arrays[0]
        kind = kind_of(first, None)[0]
        if self._code is not None and kind == "float32 on the CPU" and first.ctx == cpu():
            return _CodedBucket(names, arrays, self._code, self._residuals)
        is_narrowed = wire_dtype(first, self._wire) != wire_dtype(first, None)
        return _Bucket(
            names, arrays, self._in_place or is_narrowed, self._wire if is_narrowed else None
        )


def _buckets_like(
    label: str,
    in_place: bool,
    wire: str | None,
    groups: int,
    code: tuple[str, float] | None,
    terms: str,
) -> GradientBuckets:
    return GradientBuckets(
        label, in_place=in_place, wire=wire, groups=groups, code=code, terms=terms
    )
