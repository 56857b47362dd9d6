"""Samples of BERT's pre-training: seven arrays, one row per sample.

They are written to gluon-nlp's ``.npz`` files here and read by `pretraining_files`. This module
needs NumPy only: benchmarks use it in the environments of other frameworks, which lack mxlite.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# gluon-nlp's names; the first four vary in length together as tokens or as masks.
TOKEN_KEYS = ("input_ids", "segment_ids")
MASK_KEYS = ("masked_lm_ids", "masked_lm_positions", "masked_lm_weights")
ROW_KEYS = ("next_sentence_labels", "valid_lengths")
KEYS = sorted(TOKEN_KEYS + MASK_KEYS + ROW_KEYS)


@dataclasses.dataclass
class Samples:
    """Samples of one or several files; the rows of a list belong together.

    Attributes
    ----------
    input_ids, segment_ids : list of numpy.ndarray
        int32 of shape (tokens,).
    masked_lm_ids, masked_lm_positions : list of numpy.ndarray
        int32 of shape (masks,): the true tokens and where they are.
    masked_lm_weights : list of numpy.ndarray
        float32 of shape (masks,).
    next_sentence_labels : numpy.ndarray
        int32: 1 if the second segment does not follow the first.
    valid_lengths : numpy.ndarray
        int32: number of tokens.
    """

    input_ids: list[np.ndarray]
    segment_ids: list[np.ndarray]
    masked_lm_ids: list[np.ndarray]
    masked_lm_positions: list[np.ndarray]
    masked_lm_weights: list[np.ndarray]
    next_sentence_labels: np.ndarray
    valid_lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.input_ids)


def _converted(values: Any, dtype: str) -> np.ndarray:
    """Return numbers in another type; raise ValueError for integers that the type cannot hold."""
    numbers = np.asarray(values)
    if numbers.dtype == object:  # rows of one length
        numbers = np.asarray(numbers.tolist())
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"values of type {numbers.dtype} found")
    with np.errstate(invalid="ignore", over="ignore"):
        result = numbers.astype(dtype, copy=False)
    if dtype == "int32" and not np.array_equal(result, numbers):
        raise ValueError("numbers found that are no integers of 32 bits")
    return result


def _rows(label: str, array: Any, dtype: str) -> list[np.ndarray]:
    try:
        rows = [_converted(row, dtype) for row in array]
    except (TypeError, ValueError) as error:
        raise SystemExit(f"bert: {label} must have rows of numbers: {error}") from None
    for number, row in enumerate(rows):
        if row.ndim != 1:
            raise SystemExit(
                f"bert: {label}: row {number} must have one axis, got shape {row.shape}"
            )
    return rows


def checked(label: str, arrays: dict[str, Any], vocab_size: int, max_length: int) -> Samples:
    """Return samples whose rows fit each other, the vocabulary and the model.

    Parameters
    ----------
    label : str
        Where the arrays are from, for errors.
    arrays : dict
        Rows by the keys of :data:`KEYS`.
    vocab_size : int
        Number of tokens of the model's vocabulary.
    max_length : int
        Longest sequence that the model takes.

    Returns
    -------
    Samples

    Raises
    ------
    SystemExit
        If numbers of rows differ, or for a longer sequence, a token that the vocabulary lacks, or a
        sample without masks.
    """
    flat = {}
    for key in ROW_KEYS:
        try:
            flat[key] = _converted(arrays[key], "int32").reshape(-1)
        except (TypeError, ValueError) as error:
            raise SystemExit(f"bert: {label} {key} must be integers: {error}") from None
    columns = {key: flat.get(key, arrays[key]) for key in KEYS}
    counts = {key: len(column) if np.iterable(column) else 0 for key, column in columns.items()}
    if len(set(counts.values())) != 1 or not min(counts.values()):
        shown = ", ".join(f"{key} {count}" for key, count in counts.items())
        raise SystemExit(f"bert: {label}: numbers of rows must be equal and not 0, got {shown}")
    lists = {
        key: _rows(f"{label} {key}", arrays[key], "float32" if key.endswith("weights") else "int32")
        for key in TOKEN_KEYS + MASK_KEYS
    }
    samples = Samples(**lists, **flat)
    for number in range(len(samples)):
        problem = _problem(samples, number, vocab_size, max_length)
        if problem:
            raise SystemExit(f"bert: {label}: sample {number} {problem}")
    return samples


def _problem(samples: Samples, number: int, vocab_size: int, max_length: int) -> str:
    """Return what is wrong with a sample, "" if nothing is."""
    tokens, segments = samples.input_ids[number], samples.segment_ids[number]
    length = int(samples.valid_lengths[number])
    ids, positions = samples.masked_lm_ids[number], samples.masked_lm_positions[number]
    if not 0 < length <= len(tokens) or len(segments) != len(tokens):
        return (
            f"must have as many segment_ids as input_ids and a valid length from 1 to their "
            f"number, got {len(segments)} segment_ids, {len(tokens)} input_ids and length {length}"
        )
    if length > max_length:
        return f"must have at most {max_length} tokens, got {length}: see --max_seq_length"
    for name, values in (("token", tokens), ("masked token", ids)):
        if len(values) and not 0 <= values.min() <= values.max() < vocab_size:
            wrong = values[(values < 0) | (values >= vocab_size)][0]
            return (
                f"must have {name}s from 0 to {vocab_size - 1}, got {wrong}: it was made with "
                "another vocabulary"
            )
    if not len(ids) or not len(ids) == len(positions) == len(samples.masked_lm_weights[number]):
        return (
            "must have equal numbers of masks, at least 1, got "
            f"{len(ids)} masked_lm_ids, {len(positions)} masked_lm_positions and "
            f"{len(samples.masked_lm_weights[number])} masked_lm_weights"
        )
    if not 0 <= positions.min() <= positions.max() < length:
        wrong = positions[(positions < 0) | (positions >= length)][0]
        return f"must mask positions from 0 to {length - 1}, got {wrong}"
    weights = samples.masked_lm_weights[number]
    if not (np.isfinite(weights) & (weights >= 0)).all():
        return f"must have weights of at least 0, got {weights.tolist()}"
    if samples.next_sentence_labels[number] not in (0, 1):
        return f"must have the label 0 or 1, got {samples.next_sentence_labels[number]}"
    if not 0 <= segments.min() <= segments.max() <= 1:
        return f"must have the segments 0 and 1, got {segments.max()}"
    return ""


def write_samples(path: str | Path, samples: Samples) -> None:
    """Write a file that gluon-nlp reads, too.

    Parameters
    ----------
    path : str or path
        Replaced only after everything was written.
    samples : Samples
        At least one.
    """
    path = Path(path)
    arrays: dict[str, np.ndarray] = {key: getattr(samples, key) for key in ROW_KEYS}
    for key in TOKEN_KEYS + MASK_KEYS:
        rows: Sequence[np.ndarray] = getattr(samples, key)
        array = np.empty(len(rows), dtype=object)
        for number, row in enumerate(rows):  # one by one: rows of one length would become 2 axes
            array[number] = row
        arrays[key] = array
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.savez_compressed(file, **arrays)
    partial.replace(path)


def joined(parts: Sequence[Samples]) -> Samples:
    """Return the samples of all parts in their order.

    Parameters
    ----------
    parts : sequence of Samples
        At least one.

    Returns
    -------
    Samples
    """
    merged: dict[str, Any] = {}
    for key in TOKEN_KEYS + MASK_KEYS:
        merged[key] = [row for part in parts for row in getattr(part, key)]
    for key in ROW_KEYS:
        merged[key] = np.concatenate([getattr(part, key) for part in parts])
    return Samples(**merged)


def synthetic_samples(
    count: int, vocab_size: int, max_length: int, max_predictions: int, seed: int
) -> Samples:
    """Return sentences of a small random grammar, which a model can learn.

    A token is followed by one of two others with the probabilities 0.9 and 0.1, so that a masked
    token follows from its neighbours. Segments that do not follow are from another part of the
    vocabulary. All weights are 1, and lengths vary as those of text do.

    Parameters
    ----------
    count, vocab_size, max_length, max_predictions : int
        Numbers of samples and of tokens in the vocabulary, longest sequence, maximum number of
        masks.
    seed : int
        Equal seeds give equal samples.

    Returns
    -------
    Samples
    """
    if vocab_size < 32 or max_length < 8:
        raise SystemExit(
            "bert: synthetic data must have a vocabulary of at least 32 and --max_seq_length of "
            f"at least 8, got {vocab_size} and {max_length}"
        )
    random = np.random.RandomState(seed)
    first, words = 5, min(vocab_size, 64) - 5  # behind the special tokens
    half = words // 2

    def sentence(length: int, part: int) -> np.ndarray:
        start = random.randint(half)
        steps = np.where(random.rand(length) < 0.9, 1, 2)
        return first + part * half + (start + np.cumsum(steps)) % half

    rows: dict[str, list[Any]] = {key: [] for key in KEYS}
    for _ in range(count):
        length = max_length if random.rand() < 0.5 else random.randint(8, max_length + 1)
        left = (length - 3) // 2
        label, part = int(random.rand() < 0.5), random.randint(2)
        second = 1 - part if label else part
        tokens = np.concatenate(
            [[2], sentence(left, part), [3], sentence(length - 3 - left, second), [3]]
        ).astype("int32")
        places = np.flatnonzero(tokens >= first)
        masks = min(max_predictions, max(1, round(0.15 * length)), len(places))
        positions = np.sort(random.choice(places, masks, replace=False)).astype("int32")
        truth = tokens[positions]
        tokens[positions] = 4
        segments = np.zeros(length, "int32")
        segments[left + 2 :] = 1
        for key, value in (
            ("input_ids", tokens),
            ("segment_ids", segments),
            ("masked_lm_ids", truth),
            ("masked_lm_positions", positions),
            ("masked_lm_weights", np.ones(masks, "float32")),
            ("next_sentence_labels", label),
            ("valid_lengths", length),
        ):
            rows[key].append(value)
    return checked("synthetic data", rows, vocab_size, max_length)
