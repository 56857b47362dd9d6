"""Token files of Megatron-LM (``.bin`` with an ``.idx`` beside it), and samples from them.

Files are local or at addresses such as ``s3://bucket/text``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mxlite._files.remote import RemoteFile

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")  # magic, version, dtype code, sequences, entries of documents
# Types by their codes in files. Code 6, which is not used for tokens, is float64 in old files and
# float32 in new ones.
_DTYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}
_SHORT = 65500  # smaller vocabularies have uint16 tokens
_SEPARATE_BELOW = 0.8  # a last epoch of which a smaller share is used is shuffled separately


class _RemoteTokens:
    """Tokens at an address; slices are arrays."""

    def __init__(self, file: RemoteFile, dtype: np.dtype[Any]) -> None:
        self._file, self._dtype = file, dtype

    def __getitem__(self, part: slice) -> np.ndarray[Any, Any]:
        from mxlite.base import MXNetError

        size = self._dtype.itemsize
        try:
            return np.frombuffer(self._file[part.start * size : part.stop * size], self._dtype)
        except MXNetError as error:
            raise SystemExit(f"gpt: {error}") from error


class IndexedTokens:
    """Documents of token ids in a memory-mapped file or at an address.

    Parameters
    ----------
    path : str or Path
        Path or address without the suffix ``.bin`` or ``.idx``.

    Raises
    ------
    SystemExit
        If a file is missing, or the index does not fit its own size or that of the tokens.
    """

    def __init__(self, path: str | Path) -> None:
        index, tokens = f"{path}.idx", f"{path}.bin"
        remote: RemoteFile | None = None
        content: Any
        if "://" in tokens:
            content, remote = _at_address(index, tokens)
            size = len(remote)
        else:
            try:
                content, size = Path(index).read_bytes(), Path(tokens).stat().st_size
            except OSError as error:
                raise SystemExit(f"gpt: {error}") from error
        if len(content) < _HEADER.size:
            raise _broken(index, f"it has {len(content)} bytes, no complete header")
        magic, version, code, count, documents = _HEADER.unpack_from(content)
        if magic != _MAGIC or version != 1:
            raise _broken(index, "it does not begin as an index of Megatron-LM, version 1")
        if code not in _DTYPES:
            raise _broken(index, f"its type code must be one of {sorted(_DTYPES)}, got {code}")
        wanted = _HEADER.size + count * (4 + 8) + documents * 8
        if len(content) != wanted:
            raise _broken(index, f"it has {len(content)} bytes, {count} sequences need {wanted}")
        self.dtype = np.dtype(_DTYPES[code])
        at = _HEADER.size
        self.sizes = np.frombuffer(content, "<i4", count, at)
        self.offsets = np.frombuffer(content, "<i8", count, at + 4 * count)
        self.documents = np.frombuffer(content, "<i8", documents, at + 12 * count)
        ends = self.offsets + self.sizes.astype(np.int64) * self.dtype.itemsize
        if count and (
            min(self.sizes.min(), self.offsets.min()) < 0
            or ends.max() > size
            or (self.offsets % self.dtype.itemsize).any()
        ):
            raise _broken(index, f"it names tokens outside of {tokens}, which has {size} bytes")
        self._tokens: Any = np.zeros(0, self.dtype)
        if remote is not None:
            self._tokens = _RemoteTokens(remote, self.dtype)
        elif size:
            self._tokens = np.memmap(tokens, self.dtype, "r")

    def __len__(self) -> int:
        return len(self.sizes)

    def get(self, number: int, first: int = 0, count: int | None = None) -> np.ndarray[Any, Any]:
        """Return ``count`` tokens of a document, from the token ``first`` on."""
        begin = int(self.offsets[number]) // self.dtype.itemsize
        end = begin + int(self.sizes[number])
        begin += first
        return self._tokens[begin : end if count is None else min(end, begin + count)]


def _at_address(index: str, tokens: str) -> tuple[bytes, RemoteFile]:
    """Return the content of an index and the file of its tokens."""
    # Imported on use, because PyTorch's worker of benchmarks/dlperf runs without mxlite.
    from mxlite._files.remote import RemoteFile
    from mxlite.base import MXNetError

    try:
        content, file = RemoteFile(index)[:], RemoteFile(tokens)
        len(file)  # raises here if the address cannot be read
        return content, file
    except (OSError, MXNetError) as error:
        raise SystemExit(f"gpt: {error}") from error


def _broken(path: str, why: str) -> SystemExit:
    return SystemExit(f"gpt: {path}: the file is broken or of another kind: {why}")


def write_indexed(path: str | Path, documents: Iterable[Sequence[int]], vocabulary: int) -> int:
    """Write documents of token ids; return the number of tokens.

    Parameters
    ----------
    path : str or Path
        Without a suffix.
    documents : iterable of sequences of int
    vocabulary : int
        Number of token ids, which decides their type.
    """
    dtype = np.dtype(np.uint16 if vocabulary < _SHORT else np.int32)
    sizes = []
    with open(f"{path}.bin", "wb") as stream:
        for document in documents:
            stream.write(np.asarray(document, dtype).tobytes())
            sizes.append(len(document))
    lengths = np.asarray(sizes, np.int64)
    code = next(code for code, known in _DTYPES.items() if known == dtype)
    with open(f"{path}.idx", "wb") as stream:
        stream.write(_HEADER.pack(_MAGIC, 1, code, len(sizes), len(sizes) + 1))
        stream.write(lengths.astype("<i4").tobytes())
        stream.write(((np.cumsum(lengths) - lengths) * dtype.itemsize).astype("<i8").tobytes())
        stream.write(np.arange(len(sizes) + 1, dtype="<i8").tobytes())
    return int(lengths.sum())


def split_documents(count: int, weights: str) -> list[np.ndarray[Any, Any]]:
    """Return the numbers of the documents for training, validation and test.

    Parameters
    ----------
    count : int
        Number of documents.
    weights : str
        Three shares separated by commas, such as ``949,50,1``.
    """
    shares = [float(part) for part in weights.split(",")]
    if len(shares) != 3 or min(shares) < 0 or sum(shares) <= 0:
        raise SystemExit(f"gpt: --split must be three shares such as 949,50,1, got {weights!r}")
    ends = np.round(np.cumsum([0.0, *shares]) / sum(shares) * count).astype(int)
    return [np.arange(a, b, dtype=np.int32) for a, b in zip(ends[:-1], ends[1:])]


class Samples:
    """Sequences of equal length that follow each other in shuffled documents.

    The documents of as many epochs as needed are shuffled and joined, then cut: neighbors share a
    token, which is the last target of one and the first input of the other. The samples are
    shuffled again. For the same seed, files and number of samples, the order is that of
    Megatron-LM.

    Parameters
    ----------
    tokens : IndexedTokens
    documents : array of int
        Documents to read.
    length : int
        Number of tokens of a sample, which is read with one more token.
    count : int
        Number of samples; as many epochs as necessary are read.
    seed : int
    """

    def __init__(
        self,
        tokens: IndexedTokens,
        documents: np.ndarray[Any, Any],
        length: int,
        count: int,
        seed: int,
    ) -> None:
        per_epoch = int(tokens.sizes[documents].sum())
        if per_epoch < 2:
            raise SystemExit("gpt: the documents have fewer than two tokens")
        epochs = max(1, -(-(count * length + 1) // per_epoch))
        whole = ((epochs - 1) * per_epoch - 1) // length  # samples of all epochs but the last
        in_epoch = max(1, (per_epoch - 1) // length)
        apart = epochs > 1 and count - whole < int(_SEPARATE_BELOW * in_epoch)
        random = np.random.RandomState(seed)
        parts = [epochs - 1, 1] if apart else [epochs]
        orders = []
        for part in parts:
            order = np.tile(documents, part)
            random.shuffle(order)
            orders.append(order)
        self._tokens, self._length = tokens, length
        self._order = np.concatenate(orders)
        # Position of the first token of each document in the joined documents.
        sizes = tokens.sizes[self._order].astype(np.int64)
        self._begins = np.cumsum(sizes) - sizes
        samples = (epochs * per_epoch - 1) // length
        if samples < 1:
            raise SystemExit(f"gpt: the documents have fewer than {length + 1} tokens")
        self._shuffled = np.arange(samples, dtype=np.int64)
        for share in (
            (self._shuffled[:whole], self._shuffled[whole:]) if apart else (self._shuffled,)
        ):
            random.shuffle(share)

    def __len__(self) -> int:
        return len(self._shuffled)

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        """Return ``length + 1`` token ids, int32."""
        at = int(self._shuffled[index]) * self._length
        result = np.empty(self._length + 1, np.int32)
        place = int(np.searchsorted(self._begins, at, side="right")) - 1
        done = 0
        while done < len(result):
            first = at + done - int(self._begins[place])
            piece = self._tokens.get(int(self._order[place]), first, len(result) - done)
            result[done : done + len(piece)] = piece
            done += len(piece)
            place += 1
        return result

    def batch(self, numbers: Iterable[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return inputs and targets, (samples, length) each; numbers wrap around at the end."""
        rows = np.stack([self[number % len(self)] for number in numbers])
        return rows[:, :-1], rows[:, 1:]
