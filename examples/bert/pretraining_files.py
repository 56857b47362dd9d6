"""Reader of BERT's samples in gluon-nlp's ``.npz`` files.

Rows of different lengths are object arrays in such a file, which NumPy stores as pickles. They are
read by an interpreter that can only make arrays. Python's unpickler, even if it allows NumPy's
names only, would trust the bytes of a type.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mxlite._files.packed import check_unpacked_size
from mxlite._files.pickled import Maker, object_array_maker, plain_maker, read_pickle
from mxlite.base import FileFormatError, MXNetError
from mxlite.ndarray.file_bytes import opened_file
from mxlite.ndarray.npz import read_npz
from pretraining_samples import KEYS, Samples, checked


def _array_names(module: str, name: str) -> Maker | None:
    """Return the names that make an array of a pickle; no other name is allowed."""
    if name == "encode":  # bytes of an array in protocol 2
        return plain_maker(module, name)
    return object_array_maker(module, name)


def read_samples(path: str | Path, vocab_size: int, max_length: int) -> Samples:
    """Read a file of gluon-nlp or of `write_samples`.

    Parameters
    ----------
    path : str or path
        The ``.npz`` file, or an address of one.
    vocab_size, max_length : int
        As in :func:`pretraining_samples.checked`.

    Returns
    -------
    Samples

    Raises
    ------
    SystemExit
        If the file is missing or damaged, has other keys or rows, a longer sequence, a token that
        the vocabulary lacks, or a sample without masks.
    """
    try:
        with opened_file(str(path)) as data:
            arrays = read_npz(data, f"file {path}", _unpickled)
    except FileFormatError as error:
        raise SystemExit(f"bert: {path} is no .npz file of arrays: {error}") from None
    except MXNetError as error:
        raise SystemExit(f"bert: {path} cannot be read: {error}") from None
    missing = [key for key in KEYS if key not in arrays]
    unknown = sorted(set(arrays) - set(KEYS))
    if missing or unknown:
        found = [f"no {', '.join(missing)}"] if missing else []
        found += [f"the unknown arrays {', '.join(unknown)}"] if unknown else []
        raise SystemExit(
            f"bert: {path} must have the arrays {', '.join(KEYS)}, got {' and '.join(found)}"
        )
    return checked(str(path), arrays, vocab_size, max_length)


def _unpickled(raw: bytes) -> Any:
    """Return an array of objects, whose lists have no more entries than the pickle has bytes.

    A pickle may refer to an array repeatedly; its rows are then counted each time.
    """
    made = read_pickle(raw, _array_names, most_entries=len(raw))
    if not isinstance(made, np.ndarray):
        raise ValueError(f"a pickle must hold an array, got {type(made).__name__}")
    count, waiting = 0, [made]
    while waiting:
        value = waiting.pop()
        count += value.size
        check_unpacked_size(8 * count, len(raw), "the rows of an array of objects")
        if value.dtype.hasobject:
            waiting += [entry for entry in value.flat if isinstance(entry, np.ndarray)]
    return made
