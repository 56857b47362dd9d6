"""Turn rows of text or Parquet files into flat files of numbers and ids, in two passes.

    python prepare.py --format criteo --train day_0 day_1 --test day_2 --out data/criteo
    python prepare.py --format csv --train flights.csv --test-share 0.1 --label late \
        --numbers distance --categories carrier,dest --cross carrier:dest --out data/flights

The first pass finds the range of each number and counts the values of each category; the second
writes ``OUT.train`` and ``OUT.test``. Ids follow each other from column to column, so one table
serves all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rows import READERS, Chunk, Columns, FlatWriter, Sizes

MISSING, RARE = "\0missing", "\0rare"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--format", choices=READERS, default="criteo")
    add("--train", nargs="+", required=True, help="files")
    add("--test", nargs="*", default=[], help="files")
    add("--test-share", type=float, default=0.1, help="of the training files, without --test")
    add("--out", required=True, help="path without a suffix")
    add("--label", default="label", help="column of 0 and 1")
    add("--numbers", default="", help="columns, separated by commas")
    add("--categories", default="", help="columns, separated by commas")
    add("--cross", default="", help="pairs of categories, such as C1:C2,C3:C4")
    add("--cross-buckets", type=int, default=100_000, help="rows of a pair in the wide table")
    add("--hash-buckets", type=int, default=0, help="rows of a column; 0: a vocabulary instead")
    add("--min-count", type=int, default=6, help="rarer values of a column have one id")
    add("--seed", type=int, default=1234)
    return parser


def hashes(values: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each text, the same in every process."""
    width = max(1, values.dtype.itemsize // 4)
    points = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), width)
    found = np.full(len(values), 0xCBF29CE484222325, np.uint64)
    for column in points.T:
        # The hash is FNV-1a; the zeros after a shorter text do not count.
        mixed = (found ^ column.astype(np.uint64)) * np.uint64(0x100000001B3)
        found = np.where(column > 0, mixed, found)
    found ^= found >> np.uint64(32)
    return found * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(1)


class Statistics:
    """Ranges of numbers and counts of values in the training rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.low = self.high = np.zeros(0)
        self.counts: list[Counter[str]] = []

    def add(self, chunk: Chunk, counts: bool) -> None:
        """Take the rows of a chunk into account."""
        if not self.rows:
            self.low = np.full(chunk.numbers.shape[1], np.inf)
            self.high = -self.low
            self.counts = [Counter() for _ in chunk.categories]
        self.rows += len(chunk.labels)
        if chunk.numbers.size:
            self.low = np.fmin(self.low, np.fmin.reduce(chunk.numbers, axis=0))
            self.high = np.fmax(self.high, np.fmax.reduce(chunk.numbers, axis=0))
        for counter, column in zip(self.counts, chunk.categories if counts else ()):
            values, numbers = np.unique(column, return_counts=True)
            counter.update(dict(zip(values.tolist(), numbers.tolist())))


class Mapper:
    """Maps chunks to numbers in [0, 1] and to ids."""

    def __init__(self, statistics: Statistics, args: argparse.Namespace, names: list[str]) -> None:
        self._low = np.where(np.isfinite(statistics.low), statistics.low, 0)
        self._span = np.log1p(np.maximum(statistics.high - self._low, 1e-12))
        self._buckets, self._cross_buckets = args.hash_buckets, args.cross_buckets
        self._ids = [
            {} if args.hash_buckets else vocabulary(counter, args.min_count)
            for counter in statistics.counts
        ]
        widths = [args.hash_buckets or len(ids) for ids in self._ids]
        self._offsets = np.cumsum([0, *widths])
        self._pairs = [_pair(text, names) for text in args.cross.split(",") if text]
        self.sizes = Sizes(
            len(self._low),
            len(self._pairs) or len(names),
            len(names),
            len(self._pairs) * args.cross_buckets or int(self._offsets[-1]),
            int(self._offsets[-1]),
        )

    def map(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return numbers, ids of the wide table and ids of the deep table."""
        distance = np.maximum(np.nan_to_num(chunk.numbers - self._low), 0)
        numbers = np.minimum(np.log1p(distance) / self._span, 1)
        deep = np.empty((len(chunk.labels), len(chunk.categories)), np.int64)
        for i, column in enumerate(chunk.categories):
            if self._buckets:
                ids = (hashes(column) % np.uint64(self._buckets)).astype(np.int64)
            else:
                known, rare = self._ids[i], self._ids[i][RARE]
                values, inverse = np.unique(column, return_inverse=True)
                ids = np.array([known.get(v or MISSING, rare) for v in values.tolist()])[inverse]
            deep[:, i] = ids + self._offsets[i]
        if not self._pairs:
            return numbers, deep, deep
        wide = np.empty((len(deep), len(self._pairs)), np.int64)
        for i, (a, b) in enumerate(self._pairs):
            first, second = chunk.categories[a], chunk.categories[b]
            crossed = hashes(np.char.add(np.char.add(first, "\1"), second))
            ids = (crossed % np.uint64(self._cross_buckets)).astype(np.int64)
            wide[:, i] = ids + i * self._cross_buckets
        return numbers, wide, deep


def vocabulary(counts: Counter[str], least: int) -> dict[str, int]:
    """Return ids of values by frequency; values seen less than ``least`` times share one."""
    kept = [(-n, value) for value, n in counts.items() if value and n >= least]
    return {value: i for i, value in enumerate([MISSING, RARE, *(v for _, v in sorted(kept))])}


def _pair(text: str, names: list[str]) -> tuple[int, int]:
    first, _, second = text.partition(":")
    if first not in names or second not in names:
        raise SystemExit(
            f"wide_deep: --cross must have pairs of {', '.join(names)}, such as C1:C2, got {text!r}"
        )
    return names.index(first), names.index(second)


def read(files: list[str], args: argparse.Namespace, what: str) -> Iterator[Chunk]:
    """Read files one after the other, and show the progress."""
    columns = Columns(args.label, _names(args.numbers), _names(args.categories))
    done = 0
    for file in files:
        try:
            for chunk in READERS[args.format](Path(file), columns):
                yield chunk
                done += len(chunk.labels)
                print(f"\r{what}: {done} rows", end="", file=sys.stderr, flush=True)
        except OSError as error:
            raise SystemExit(f"wide_deep: {error}") from None
    print(file=sys.stderr)
    if not done:
        raise SystemExit(f"wide_deep: {what}: the files have no rows")


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    args = make_parser().parse_args(argv)
    statistics = Statistics()
    for chunk in read(args.train, args, "first pass"):
        statistics.add(chunk, not args.hash_buckets)
    count = len(statistics.counts)
    names = list(_names(args.categories)) or [f"C{i + 1}" for i in range(count)]
    mapper = Mapper(statistics, args, names)
    train, test = (
        FlatWriter(Path(f"{args.out}.{part}"), Sizes(**vars(mapper.sizes)))
        for part in ("train", "test")
    )
    random = np.random.RandomState(args.seed)
    for chunk in read(args.train, args, "training rows"):
        rows = [chunk.labels, *mapper.map(chunk)]
        share = 0.0 if args.test else args.test_share
        is_test = random.random_sample(len(chunk.labels)) < share
        train.write(*(part[~is_test] for part in rows))
        test.write(*(part[is_test] for part in rows))
    for chunk in read(args.test, args, "test rows") if args.test else ():
        test.write(chunk.labels, *mapper.map(chunk))
    train.close()
    test.close()
    print(f"wide table {mapper.sizes.wide_rows} rows, deep table {mapper.sizes.deep_rows} rows")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
