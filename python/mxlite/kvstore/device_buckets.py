"""Gradients of several devices of this process, summed in buckets during backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import _core
from .. import ndarray as nd
from ..comm.bucket_plan import BucketSizes, backward_order, kind_of, packed
from ..ndarray import NDArray
from .base import summed, sums_on_gpus

# The sums of a gradient: on each of its GPUs, or one on the first context.
Sums = list[NDArray]


class _Bucket:
    """Gradients that one NCCL call sums, stored in one block of memory on each GPU."""

    def __init__(self, positions: list[int], gradients: Sequence[Sequence[NDArray]]) -> None:
        self.positions = positions
        self._cores = []
        for arrays in map(list, zip(*gradients)):
            like = nd.zeros((1,), dtype=arrays[0].dtype)
            size = _core.bucket_elements(arrays, like)
            memories = [nd.zeros((size,), ctx=arrays[0].ctx, dtype=like.dtype) for _ in range(2)]
            for memory in memories:
                memory.wait_to_read()
            self._cores.append(_core.GradientBucket(arrays, *memories))

    def fits(self, gradients: Sequence[Sequence[NDArray]]) -> bool:
        """Return whether the bucket was made for arrays of these shapes, dtypes and devices."""
        columns = [list(column) for column in zip(*gradients)]
        return len(columns) == len(self._cores) and all(
            core.fits(column) for core, column in zip(self._cores, columns)
        )

    def sum(self, gradients: Sequence[Sequence[NDArray]]) -> list[Sums]:
        """Start summing; return the sums on all GPUs, which the next call overwrites."""
        for core, arrays in zip(self._cores, zip(*gradients)):
            core.take(list(arrays))
        _core.GradientBucket.sum_on_devices(self._cores, 0, len(self.positions))
        return [list(sums) for sums in zip(*(core.sums for core in self._cores))]


class DeviceBuckets:
    """Sums the gradients of a training over the devices of this process.

    Gradients are packed in the order in which backward makes them on the first device, 25 MB to a
    bucket (``MXLITE_BUCKET_MB``). On GPUs, a gradient without views is stored in its bucket
    after the first step, and one call of NCCL sums a bucket. Other arrays are summed one by one, in
    the same order.
    """

    def __init__(self, label: str) -> None:
        self._bytes = BucketSizes(label).current
        self._known: list[tuple[object, ...]] = []  # keys and kinds of the current gradients
        self._learns = False  # True if the order of backward is not known yet
        self._lists: list[list[int]] = []
        self._buckets: dict[int, _Bucket] = {}  # by index in _lists

    def sum(
        self, keys: Sequence[object], gradients: Sequence[Sequence[NDArray]], with_nccl: bool
    ) -> Iterator[tuple[list[int], list[Sums]]]:
        """Start summing gradients; yield the positions and the sums of each bucket."""
        self._prepare(keys, gradients)
        for number, positions in enumerate(self._lists):
            members = [gradients[i] for i in positions]
            if not with_nccl or not sums_on_gpus(members[0]):
                yield positions, [[summed(arrays)] for arrays in members]
                continue
            bucket = self._buckets.get(number)
            if bucket is None or not bucket.fits(members):
                _core.run_backward_in_segments(True)
                bucket = self._buckets[number] = _Bucket(positions, members)
            yield positions, bucket.sum(members)

    def _prepare(self, keys: Sequence[object], gradients: Sequence[Sequence[NDArray]]) -> None:
        """Divide the gradients into lists, if they or their order have changed."""
        kinds = [(*kind_of(arrays[0], None), str([a.ctx for a in arrays])) for arrays in gradients]
        known: list[tuple[object, ...]] = [(key, *kind) for key, kind in zip(keys, kinds)]
        is_new = known != self._known
        if not is_new and not self._learns:
            return
        order, learned = backward_order([arrays[0] for arrays in gradients])
        # A gradient that backward has not computed in two steps is placed last.
        self._learns = is_new and not learned
        _core.note_gradient_order(self._learns)
        self._known = known
        by_name = {
            str(i): (f"{kind} on {places}", size) for i, (kind, size, places) in enumerate(kinds)
        }
        names = packed([str(i) for i in order], by_name, self._bytes)
        lists = [[int(name) for name in members] for members in names]
        if is_new or lists != self._lists:
            self._lists = lists
            self._buckets.clear()
