"""Readers of rows from text and Parquet files, and flat files that hold prepared rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CHUNK = 1 << 16  # rows of one read
CRITEO_DENSE, CRITEO_CATEGORIES = 13, 26


class Chunk(NamedTuple):
    """Some rows: labels (rows,); numbers (rows, columns), NaN if missing; texts by column."""

    labels: np.ndarray
    numbers: np.ndarray
    categories: list[np.ndarray]


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a file with a header; Criteo and libsvm files have their own."""

    label: str = "label"
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


def _number(text: str, where: str) -> float:
    try:
        return float(text) if text else float("nan")
    except ValueError:
        raise SystemExit(
            f"wide_deep: {where}: the field must be a number, got {text[:40]!r}"
        ) from None


def _label(text: str, where: str) -> float:
    value = _number(text, where)
    if value not in (0, 1, -1):
        raise SystemExit(f"wide_deep: {where}: the label must be 0 or 1, got {text[:40]!r}")
    return float(value > 0)


def _chunk(labels: list[float], numbers: list[list[float]], texts: list[Sequence[str]]) -> Chunk:
    return Chunk(
        np.array(labels, np.float32),
        np.array(numbers, np.float64).reshape(len(labels), -1),
        [np.array(column, dtype=np.str_) for column in zip(*texts)],
    )


def _chunks(rows: Iterator[tuple[float, list[float], Sequence[str]]]) -> Iterator[Chunk]:
    labels: list[float] = []
    numbers: list[list[float]] = []
    texts: list[Sequence[str]] = []
    for label, values, categories in rows:
        labels.append(label)
        numbers.append(values)
        texts.append(categories)
        if len(labels) == CHUNK:
            yield _chunk(labels, numbers, texts)
            labels, numbers, texts = [], [], []
    if labels:
        yield _chunk(labels, numbers, texts)


def read_criteo(path: Path, _: Columns) -> Iterator[Chunk]:
    """Read ``label <tab> I1..I13 <tab> C1..C26``; empty fields are missing."""
    fields = 1 + CRITEO_DENSE + CRITEO_CATEGORIES

    def rows() -> Iterator[tuple[float, list[float], Sequence[str]]]:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line, text in enumerate(file, 1):
                where = f"{path}, line {line}"
                values = text.rstrip("\r\n").split("\t")
                if len(values) != fields:
                    raise SystemExit(
                        f"wide_deep: {where}: the line must have {fields} fields, got {len(values)}"
                    )
                numbers = [_number(value, where) for value in values[1 : 1 + CRITEO_DENSE]]
                yield _label(values[0], where), numbers, values[1 + CRITEO_DENSE :]

    return _chunks(rows())


def read_csv(path: Path, columns: Columns) -> Iterator[Chunk]:
    """Read comma-separated values with a header; empty fields are missing."""

    def rows() -> Iterator[tuple[float, list[float], Sequence[str]]]:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            at = _places(path, header, columns)
            for values in reader:
                where = f"{path}, line {reader.line_num}"
                if len(values) != len(header):
                    raise SystemExit(
                        f"wide_deep: {where}: the line must have {len(header)} fields, got "
                        f"{len(values)}"
                    )
                numbers = [_number(values[i], where) for i in at[1]]
                yield _label(values[at[0]], where), numbers, [values[i] for i in at[2]]

    return _chunks(rows())


def _places(
    path: Path, header: Sequence[str], columns: Columns
) -> tuple[int, list[int], list[int]]:
    missing = {columns.label, *columns.numbers, *columns.categories} - set(header)
    if missing or not columns.categories:
        what = f"no column {sorted(missing)[0]!r}" if missing else "no --categories given"
        raise SystemExit(f"wide_deep: {path}: {what}; it has {', '.join(header) or 'no header'}")
    places = {name: i for i, name in enumerate(header)}
    return (
        places[columns.label],
        [places[name] for name in columns.numbers],
        [places[name] for name in columns.categories],
    )


def read_libsvm(path: Path, _: Columns) -> Iterator[Chunk]:
    """Read ``label index:value ...``: each index is a category, all lines have as many."""

    def rows() -> Iterator[tuple[float, list[float], Sequence[str]]]:
        count = None
        with path.open(encoding="utf-8") as file:
            for line, text in enumerate(file, 1):
                where = f"{path}, line {line}"
                label, *entries = text.split()
                count = len(entries) if count is None else count
                indices = [entry.partition(":")[0] for entry in entries]
                if len(entries) != count or not all(index.isdecimal() for index in indices):
                    raise SystemExit(
                        f"wide_deep: {where}: the line must have {count} entries of the form "
                        f"index:value, got {len(entries)}"
                    )
                yield _label(label, where), [], indices

    return _chunks(rows())


def read_parquet(path: Path, columns: Columns) -> Iterator[Chunk]:
    """Read a Parquet file with pyarrow; null is missing."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise SystemExit("wide_deep: Parquet files need pyarrow: pip install pyarrow") from None
    file = parquet.ParquetFile(path)
    _places(path, file.schema_arrow.names, columns)
    names = [columns.label, *columns.numbers, *columns.categories]
    for batch in file.iter_batches(CHUNK, columns=names):
        values = {name: batch.column(name).to_pylist() for name in names}
        numbers = [[_of(v, float("nan")) for v in values[name]] for name in columns.numbers]
        labels = [_label(str(v), str(path)) for v in values[columns.label]]
        yield Chunk(
            np.array(labels, np.float32),
            np.array(numbers, np.float64).reshape(len(numbers), len(labels)).T,
            [np.array([str(_of(v, "")) for v in values[name]]) for name in columns.categories],
        )


def _of(value: Any, missing: Any) -> Any:
    return missing if value is None else value


READERS = {
    "criteo": read_criteo,
    "csv": read_csv,
    "libsvm": read_libsvm,
    "parquet": read_parquet,
}


@dataclass
class Sizes:
    """Sizes of prepared rows and of the tables for them: the content of the ``.json`` file."""

    numbers: int
    wide: int  # ids of a row for the wide table
    deep: int
    wide_rows: int  # size of the wide table
    deep_rows: int
    rows: int = 0

    @property
    def record(self) -> np.dtype:
        """Type of a row of the flat file."""
        fields = [("label", "i1"), ("numbers", "<f4", (self.numbers,))]
        return np.dtype([*fields, ("wide", "<i8", (self.wide,)), ("deep", "<i8", (self.deep,))])


def _beside(name: str | Path, suffix: str) -> Path:
    return Path(f"{name}.{suffix}")


class FlatWriter:
    """Writes prepared rows to ``NAME.bin`` and their sizes to ``NAME.json`` at the end."""

    def __init__(self, name: Path, sizes: Sizes) -> None:
        name.parent.mkdir(parents=True, exist_ok=True)
        self._name, self._sizes = name, sizes
        self._partial = _beside(name, "bin.partial")
        self._file = self._partial.open("wb")

    def write(self, labels: Any, numbers: Any, wide: Any, deep: Any) -> None:
        """Append rows."""
        records = np.zeros(len(labels), self._sizes.record)
        records["label"], records["numbers"] = labels, numbers
        records["wide"], records["deep"] = wide, deep
        self._file.write(records.tobytes())
        self._sizes.rows += len(labels)

    def close(self) -> None:
        """Complete both files."""
        self._file.close()
        _beside(self._name, "json").write_text(json.dumps(asdict(self._sizes)) + "\n")
        self._partial.replace(_beside(self._name, "bin"))


class FlatRows:
    """Prepared rows in memory-mapped form."""

    def __init__(self, name: str | Path) -> None:
        file = _beside(name, "bin")
        try:
            self.sizes = Sizes(**json.loads(_beside(name, "json").read_text()))
            found = file.stat().st_size
        except (OSError, ValueError, TypeError) as error:
            raise SystemExit(f"wide_deep: {name} has no prepared rows: {error}") from None
        expected = self.sizes.rows * self.sizes.record.itemsize
        if found != expected or not found:
            raise SystemExit(f"wide_deep: {file} must have {expected} bytes, got {found}")
        self.records = np.memmap(file, self.sizes.record, "r")

    def __len__(self) -> int:
        return self.sizes.rows
