"""Record files: sequences of byte strings, with or without an index (``mxnet.recordio``).

Files are byte for byte those of MXNet 1.x. A damaged record raises a :class:`RecordError` that
names file, record and offset; the next ``read()`` continues with the next whole record.
"""

from __future__ import annotations

import numbers
import os
import struct
from collections import namedtuple
from typing import IO, Any, Callable, cast

import numpy as np

from . import _core
from ._files.native import int64_of, native_name
from ._files.remote import is_address, refuse_writing
from ._files.whole import open_text
from .base import (
    FileAccessError,
    MissingFileError,
    MXNetError,
    NotSupportedError,
    RecordError,
    TypeError_,
    ValueError_,
)

__all__ = [
    "IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img", "unpack", "unpack_img",
]  # fmt: skip


class MissingKeyError(MXNetError, KeyError):
    """A key that an index file does not have."""

    __str__ = Exception.__str__  # KeyError's quotes the text


class MXRecordIO:
    """A record file, read from front to back or written.

    Parameters
    ----------
    uri : str or path
        A file, or an address such as ``s3://bucket/file`` to read from.
    flag : str
        ``'r'`` reads, ``'w'`` makes a new file.

    Raises
    ------
    RecordError
        If the file cannot be opened.
    ValueError
        If the flag is neither ``'r'`` nor ``'w'``.

    Notes
    -----
    Matches ``mxnet.recordio.MXRecordIO``. It can be pickled (for workers): the copy opens the file
    itself and reads from the beginning.
    """

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.is_open = False
        self.writable = False
        self.handle: Any = None
        self.open()

    def open(self) -> None:
        """Open the file; a writer empties it."""
        name = type(self).__name__
        if self.flag not in ("r", "w"):
            raise ValueError_(f"{name}: flag must be 'r' or 'w', got {self.flag!r}")
        self.writable = self.flag == "w"
        if self.writable:
            refuse_writing(self.uri, name)
        elif not is_address(self.uri) and not os.path.exists(self.uri):
            raise MissingRecordFileError(f"{name}: there is no file {self.uri!r}")
        make = _core.RecordWriter if self.writable else _core.RecordReader
        try:
            self.handle = make(native_name(self.uri))
        except MissingFileError as error:
            raise MissingRecordFileError(f"{name}: {error}") from error
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Close the file.

        Raises RecordError if buffered records cannot be written, for example to a full disk.
        """
        if not self.is_open:
            return
        self.is_open, self.pid = False, None
        handle, self.handle = self.handle, None
        if self.writable:
            handle.close()

    def reset(self) -> None:
        """Begin again; a writer empties the file."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record of less than 512 MiB."""
        self._require(writable=True, method="write")
        self._check_pid()
        self.handle.write(buf)

    def read(self) -> bytes | None:
        """Return the next record; None at the end.

        Raises RecordError for a damaged record. The next call continues after the damage.
        """
        self._require(writable=False, method="read")
        self._check_pid()
        return self.handle.next()

    def _require(self, writable: bool, method: str) -> None:
        if not self.is_open:
            raise RecordError(f"{type(self).__name__}.{method}: {self.uri!r} is closed")
        if self.writable != writable:
            raise RecordError(
                f"{type(self).__name__}.{method}: {self.uri!r} is open with flag {self.flag!r}"
            )

    def _check_pid(self, allow_reset: bool = False) -> None:
        if self.pid == os.getpid():
            return
        if not allow_reset:
            raise MXNetError(
                f"{type(self).__name__}: Forbidden operation in multiple processes: {self.uri!r} "
                "was opened before this process was forked; call reset()"
            )
        self.reset()

    def __enter__(self) -> MXRecordIO:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False) and self.pid == os.getpid():
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["handle"] = None
        if self.writable:
            self.close()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        was_open, self.is_open = self.is_open, False
        if was_open:
            self.open()


class MissingRecordFileError(RecordError, MissingFileError):
    """A record file that does not exist: both an error of records and a FileNotFoundError."""


class MXIndexedRecordIO(MXRecordIO):
    """A record file with an index: records are read by their keys.

    Parameters
    ----------
    idx_path : str or path
        Text file with a line ``key<tab>offset`` for each record.
    uri : str or path
    flag : str
        ``'r'`` or ``'w'``.
    key_type : callable
        Makes the key from its text.

    Attributes
    ----------
    idx : dict
        Offsets by keys.
    keys : list
        Keys in the order of the index file.
    """

    def __init__(
        self,
        idx_path: str | os.PathLike[str],
        uri: str | os.PathLike[str],
        flag: str,
        key_type: Callable[[Any], Any] = int,
    ) -> None:
        self.idx_path = os.fspath(idx_path)
        self.key_type = key_type
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.fidx: IO[str] | None = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files; a reader loads the index."""
        super().open()
        self.idx, self.keys = {}, []
        try:
            damage = "surrogateescape"  # becomes no number
            if self.writable:
                index: IO[str] = open(  # noqa: SIM115
                    self.idx_path, "w", encoding="utf-8", errors=damage
                )
            else:
                index = open_text(self.idx_path, errors=damage)
        except FileNotFoundError as error:
            super().close()
            raise MissingRecordFileError(
                f"MXIndexedRecordIO: there is no index file {self.idx_path!r}; "
                "write the record file with MXIndexedRecordIO"
            ) from error
        except OSError as error:
            super().close()
            raise FileAccessError(
                f"MXIndexedRecordIO: index file {self.idx_path!r}: {error.strerror or error}"
            ) from error
        self.fidx = index
        if not self.writable:
            self._load_index(index)

    def _load_index(self, lines: IO[str]) -> None:
        for number, line in enumerate(lines, 1):
            fields = line.strip().split("\t")
            if fields == [""]:
                continue
            try:
                key, offset = self.key_type(fields[0]), int64_of(fields[1].strip())
            except (IndexError, ValueError) as error:
                raise RecordError(
                    f"MXIndexedRecordIO: index file {self.idx_path!r}, line {number}: "
                    f"a line must be key<tab>offset, got {line.rstrip()!r}"
                ) from error
            self.idx[key] = offset
            self.keys.append(key)

    def close(self) -> None:
        """Close both files."""
        if not self.is_open:
            return
        try:
            super().close()  # before the index, so that the index has only complete records
        finally:
            if self.fidx is not None:
                self.fidx.close()
                self.fidx = None

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["fidx"] = None
        return state

    def seek(self, idx: Any) -> None:
        """Let the next ``read()`` return the record with this key.

        Raises KeyError if the index does not have the key.
        """
        self._require(writable=False, method="seek")
        self._check_pid(allow_reset=True)
        if idx not in self.idx:
            raise MissingKeyError(
                f"MXIndexedRecordIO: key {idx!r} is not among the {len(self.idx)} keys of "
                f"{self.idx_path!r}"
            )
        self.handle.seek(self.idx[idx])

    def tell(self) -> int:
        """Return the offset at which a writer will write the next record."""
        self._require(writable=True, method="tell")
        return self.handle.tell()

    def read_idx(self, idx: Any) -> bytes | None:
        """Return the record with this key.

        Raises KeyError if the index does not have the key, RecordError if no whole record is there.
        """
        self.seek(idx)
        return self.read()

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record and its line of the index; the key is of ``key_type``."""
        key = self.key_type(idx)
        position = self.tell()
        self.write(buf)
        assert self.fidx is not None
        self.fidx.write(f"{key}\t{position}\n")
        self.idx[key] = position
        self.keys.append(key)


IRHeader = namedtuple("IRHeader", ["flag", "label", "id", "id2"])
IRHeader.__name__ = "HEADER"  # what 1.x prints
IRHeader.__doc__ = """The header of an image record: labels and identity.

Parameters
----------
flag : int
    Number of labels after the header; 0: one label, inside it.
label : float or array of float32
id, id2 : int
"""

_IR_FORMAT = "IfQQ"
_IR_SIZE = struct.calcsize(_IR_FORMAT)


def pack(header: Any, s: bytes) -> bytes:
    """Put a header before bytes.

    Parameters
    ----------
    header : IRHeader
        Its flag is ignored. A label that is one number is written into the header, several numbers
        follow it.
    s : bytes

    Raises
    ------
    ValueError
        If id or id2 do not fit into 64 bits without sign, or the label is no number.
    """
    flag, label, first_id, second_id = header
    scalar, labels = cast(Any, label), b""
    try:
        if isinstance(label, numbers.Number):
            flag = 0
        else:
            labels = np.asarray(label, dtype=np.float32).tobytes()
            flag, scalar = len(labels) // 4, 0
        head = struct.pack(_IR_FORMAT, flag, scalar, first_id, second_id)
    except (struct.error, TypeError, ValueError) as error:
        raise ValueError_(
            "recordio.pack: label, id and id2 must be numbers that a header holds, got "
            f"{label!r}, {first_id!r} and {second_id!r}: {error}"
        ) from error
    return head + labels + s


def unpack(s: bytes) -> tuple[Any, bytes]:
    """Split a record into header and content.

    Parameters
    ----------
    s : bytes
        A record from :func:`pack`.

    Returns
    -------
    tuple of (IRHeader, bytes)
        The label is a float, or a float32 array if there are several.

    Raises
    ------
    RecordError
        If the record is shorter than its header says.
    """
    s = s if isinstance(s, (bytes, bytearray)) else memoryview(s).tobytes()
    if len(s) < _IR_SIZE:
        raise RecordError(
            f"recordio.unpack: a record must have at least {_IR_SIZE} bytes for its header, got "
            f"{len(s)}"
        )
    header = IRHeader(*struct.unpack(_IR_FORMAT, s[:_IR_SIZE]))
    if header.flag == 0:
        return header, s[_IR_SIZE:]
    end = _IR_SIZE + 4 * header.flag
    if len(s) < end:
        raise RecordError(
            f"recordio.unpack: a record with {header.flag} labels must have at least {end} bytes, "
            f"got {len(s)}"
        )
    labels = np.frombuffer(s, np.float32, header.flag, _IR_SIZE)
    return header._replace(label=labels), s[end:]


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[Any, np.ndarray[Any, Any]]:
    """Split a record and decode its image.

    Parameters
    ----------
    s : bytes
    iscolor : int
        1: three channels, 0: gray, both rotated by the Exif tag; -1: as stored.

    Returns
    -------
    tuple of (IRHeader, numpy.ndarray)
        uint8 (height, width, 3), BGR, or (height, width) if gray, or (height, width, 4).

    Raises
    ------
    RecordError
        If the image is damaged, or neither JPEG nor PNG.
    """
    if iscolor not in (-1, 0, 1):
        raise ValueError_(f"recordio.unpack_img: iscolor must be -1, 0 or 1, got {iscolor!r}")
    header, image = unpack(s)
    name = "recordio.unpack_img"
    channels = _core.image_info(image, name)[2] if iscolor == -1 else 3 if iscolor else 1
    pixels = _core.decode_image(
        image, channels=channels, to_rgb=False, upright=iscolor != -1, name=name
    ).asnumpy()
    return header, pixels if channels > 1 else pixels[:, :, 0]


def pack_img(header: Any, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Encode an image and put a header before it.

    Parameters
    ----------
    header : IRHeader
    img : numpy.ndarray or NDArray
        uint8 (height, width, 3), BGR, or (height, width[, 1]), or (height, width, 4) for PNG.
    quality : int
        1 to 100; for PNG 0 (fast) to 9 (small).
    img_fmt : str
        ``'.jpg'`` or ``'.png'``.

    Raises
    ------
    TypeError
        If the image is not uint8.

    Notes
    -----
    Matches ``mxnet.recordio.pack_img``. Qualities above 9 mean 9 for PNG.
    """
    png = img_fmt.lower() == ".png"
    if not png and img_fmt.lower() not in (".jpg", ".jpeg"):
        raise NotSupportedError(
            f"recordio.pack_img: img_fmt must be '.jpg' or '.png', got {img_fmt!r}; pack() "
            "takes bytes that another library encoded"
        )
    pixels = np.ascontiguousarray(img.asnumpy() if hasattr(img, "asnumpy") else img)
    if pixels.dtype != np.uint8:
        raise TypeError_(f"recordio.pack_img: the image must be of dtype uint8, got {pixels.dtype}")
    return pack(header, _core.encode_image(pixels, png, min(quality, 9) if png else quality))
