"""Consistent files that contain numbers at the limits of integers.

Changes of single bytes hardly ever make such files, for example a shape of a zero and two huge
extents with the number of bytes that their product gives.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import struct
import zipfile
import zlib
from collections.abc import Callable

import numpy as np
from mutation import INTERESTING, extent, extents, integer, text_number
from seeds import png_chunk

_SIZES = (4, 8, 2, 1, 4, 1, 8, 1, 2, 2, 4, 8, 2)  # bytes by type code


def _content(numbers: random.Random, size: int) -> bytes:
    """Return the bytes of all values of a shape if they are few, and sometimes too few bytes."""
    size = size if size <= 4096 else numbers.randrange(64)
    if numbers.randrange(12) == 0:
        size = max(0, size + numbers.choice((-1, 1)))
    return numbers.randbytes(size) if numbers.randrange(2) else bytes(size)


def _signed(shape: tuple[int, ...]) -> list[int]:
    return [value - 2**64 if value >= 2**63 else value for value in shape]


def _shape(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *_signed(shape))


def _dense(numbers: random.Random) -> bytes:
    code = numbers.randrange(13) if numbers.randrange(20) else numbers.choice((13, -1, 2**31 - 1))
    version = numbers.choice((0, 1, 2, 2, 3, 3))
    shape = extents(numbers, bits=32 if version == 0 else 64)
    magic = struct.pack("<I", 0xF993FAC8 + version - 1) if version else b""
    magic += struct.pack("<i", 0) if version >= 2 else b""
    head = struct.pack(f"<I{len(shape)}I", len(shape), *shape) if version == 0 else _shape(shape)
    size = math.prod(shape) * _SIZES[code] if 0 <= code < 13 else 0
    return magic + head + struct.pack("<iii", 1, 0, code) + _content(numbers, size)


def _sparse(numbers: random.Random) -> bytes:
    """Return a sparse blob whose index arrays have the lengths of its values, or almost."""
    csr = numbers.randrange(2)
    rows, columns, count = extent(numbers), extent(numbers), numbers.randrange(4)
    storage = (count,) if csr else (count, columns)
    if numbers.randrange(6) == 0:
        storage = extents(numbers)
    code, index_code = numbers.randrange(13), numbers.choice((4, 6, 6, 6, 3, 0))
    lengths = [min(rows + 1, 5), count] if csr else [count]
    layout = {4: "<i", 6: "<q", 3: "<B", 0: "<f"}[index_code]
    indices = []
    for length in lengths:
        values = sorted(numbers.choice((*range(4), -1, rows, columns, *INTERESTING))
                        for _ in range(length))  # fmt: skip
        bits = 8 * struct.calcsize(layout)
        raw = b"".join((v % 2**bits).to_bytes(bits // 8, "little") for v in values)
        indices.append((length, raw))
    head = struct.pack("<Ii", 0xF993FAC9, 2 if csr else 1) + _shape(storage)
    head += _shape((rows, columns)) + struct.pack("<iii", 1, 0, code)
    for length, _ in indices:
        head += struct.pack("<i", index_code) + _shape((length,))
    head += _content(numbers, math.prod(storage) * _SIZES[code])
    return head + b"".join(raw for _, raw in indices)


def params(numbers: random.Random) -> bytes:
    """Return a file of arrays of all versions, dense and sparse."""
    count = numbers.randrange(4)
    blobs = [_sparse(numbers) if numbers.randrange(3) == 0 else _dense(numbers)
             for _ in range(count)]  # fmt: skip
    names = [f"n{i}".encode() for i in range(numbers.choice((0, count)))]
    announced = count if numbers.randrange(10) else numbers.choice(INTERESTING)
    parts = [struct.pack("<QQQ", 0x112, 0, announced), *blobs, struct.pack("<Q", len(names))]
    for name in names:
        length = len(name) if numbers.randrange(20) else numbers.choice(INTERESTING)
        parts += [struct.pack("<Q", length), name]
    return b"".join(parts)


# -- npz -------------------------------------------------------------------------------------------

_TYPES = ("<f4", ">f8", "|b1", "<i8", "|u1", "<f2", "<U4", "|O", "<c8", "<M8[s]", "|V0", "f4,f4")


def _npy(numbers: random.Random) -> bytes:
    code = numbers.choice(_TYPES)
    shape = extents(numbers)
    fortran = numbers.choice(("True", "False", "1", "None"))
    text = f"{{'descr': '{code}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    if numbers.randrange(20) == 0:
        text = numbers.choice((b"(" * 9000, b"-" * 9000 + b"1", b"[]", b"9" * 9000, b"{1:2}",
                               b"'descr'", b"{'descr': 1, 'shape': 2}", b"1\x00"))  # fmt: skip
    version = numbers.choice((1, 1, 2, 3, 9))
    length = len(text) if numbers.randrange(10) else numbers.choice(INTERESTING)
    packed = (
        struct.pack("<H", length % 2**16) if version == 1 else struct.pack("<I", length % 2**32)
    )
    try:
        size = math.prod(shape) * np.dtype(code).itemsize
    except (TypeError, ValueError):
        size = 0
    return b"\x93NUMPY" + bytes([version, 0]) + packed + text + _content(numbers, size)


def npz(numbers: random.Random) -> bytes:
    """Return a zip archive with consistent arrays and fields of the directory at limits."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number in range(numbers.randrange(3)):
            info = zipfile.ZipInfo(numbers.choice((f"a{number}.npy", "arr_0.npy", "", "é\0x")))
            info.compress_type = numbers.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            if numbers.randrange(3) == 0:  # sizes and the offset with 64 bits
                values = [numbers.choice(INTERESTING) for _ in range(numbers.randrange(4))]
                info.extra = struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values)
            archive.writestr(info, _npy(numbers))
    data = bytearray(stream.getvalue())
    for _ in range(numbers.choice((0, 0, 1, 2))):
        begin = data.rfind(numbers.choice((b"PK\x01\x02", b"PK\x05\x06", b"PK\x03\x04")))
        if begin >= 0:
            at = begin + numbers.choice((6, 8, 10, 12, 16, 20, 24, 28, 30, 38, 42))
            raw = struct.pack("<I", numbers.choice((*INTERESTING[:12], 2**32 - 1)))
            data[at : at + 4] = raw
    return bytes(data)


# -- pickles ---------------------------------------------------------------------------------------


def _text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def _tuple(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def _numpy_array(numbers: random.Random) -> bytes:
    """Return the opcodes of a NumPy array, whose bytes fit its shape as often as not."""
    code = numbers.choice(("f4", "f8", "i8", "b1", "u1", "O8", "V8", "U2", "S3", "c16", "M8"))
    size = {"O8": 8, "U2": 8, "M8": 8}.get(code) or int(code[1:])
    shape = extents(numbers)
    kind = b"cnumpy\ndtype\n" + _tuple(_text(code), integer(0), integer(1)) + b"R"
    order = _text(numbers.choice(("<", ">", "|", "=", "!")))
    flag = integer(numbers.choice((0, 0, 16, 63, -1)))
    kind += _tuple(integer(3), order, b"N", b"N", b"N", integer(-1), integer(-1), flag) + b"b"
    content = _raw(_content(numbers, math.prod(shape) * size))
    extent_parts = [integer(value) for value in shape]
    state = (integer(1), _tuple(*extent_parts), kind, numbers.choice((b"\x88", b"\x89")), content)
    begin = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    if numbers.randrange(4) == 0:
        return (b"cnumpy.core.numeric\n_frombuffer\n"
                + _tuple(content, kind, _tuple(*extent_parts), _text("C")) + b"R")  # fmt: skip
    return begin + _tuple(integer(0)) + _raw(b"b") + b"\x87R" + _tuple(*state) + b"b"


def states(numbers: random.Random) -> bytes:
    """Return a pickle of MXNet's and NumPy's arrays, as states of an optimizer."""
    parts = []
    for number in range(numbers.randrange(1, 3)):
        value = _numpy_array(numbers)
        if numbers.randrange(2):
            blob = _sparse(numbers) if numbers.randrange(3) == 0 else _dense(numbers)
            value = (
                b"cmxnet.ndarray.ndarray\nNDArray\n)\x81}" + _text("handle") + _raw(blob) + b"sb"
            )
        parts.append(integer(number) + value + b"s")
    return b"\x80\x02}" + b"".join(parts) + b"."


def objects(numbers: random.Random) -> bytes:
    """Return a pickle with a NumPy array, an NDArray made of a NumPy array, or another object."""
    value = _numpy_array(numbers)
    if numbers.randrange(2):
        value = b"cmxlite.horovod.functions\n_array\n" + value + b"\x85R"
    if numbers.randrange(4) == 0:
        module, name, count = numbers.choice((
            ("datetime", "timedelta", 3), ("builtins", "range", 3), ("collections", "deque", 2),
            ("fractions", "Fraction", 2), ("datetime", "datetime", 1), ("uuid", "UUID", 0),
            ("decimal", "Decimal", 1), ("builtins", "complex", 2), ("builtins", "slice", 3),
            ("datetime", "timezone", 1), ("pathlib", "PosixPath", 1), ("datetime", "time", 1),
        ))  # fmt: skip
        choices = (integer(numbers.choice(INTERESTING)), _text(text_number(numbers)), b"N",
                   b"G" + struct.pack(">d", 1e308), _raw(numbers.randbytes(10)), b")",
                   _raw(numbers.randbytes(6)))  # fmt: skip
        args = [numbers.choice(choices) for _ in range(count)]
        if numbers.randrange(2) and count in (2, 3):
            args = [integer(numbers.choice(INTERESTING)) for _ in range(count)]
        value = f"c{module}\n{name}\n".encode() + _tuple(*args) + b"R"
    return b"\x80\x04" + value + b"."


# -- other files -----------------------------------------------------------------------------------


def idx(numbers: random.Random) -> bytes:
    """Return an idx file with as many values as its extents say."""
    shape = extents(numbers, numbers.choice((3, 3, 3, 1)), bits=32)
    head = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    data = head + _content(numbers, math.prod(shape))
    return gzip.compress(data, mtime=0) if numbers.randrange(4) == 0 else data


def index(numbers: random.Random) -> bytes:
    """Return lines of keys and offsets."""
    lines = [f"{text_number(numbers)}\t{text_number(numbers)}" for _ in range(numbers.randrange(4))]
    return "\n".join(lines).encode()


def records(numbers: random.Random) -> bytes:
    """Return a record file with whole and divided records that hold headers of images."""
    parts = []
    for _ in range(numbers.randrange(1, 4)):
        count = numbers.choice((0, 1, 3, 2**30, 2**32 - 1, 2**31))
        labels = bytes(4 * count) if count < 4 else b""
        payload = struct.pack("<IfQQ", count, 1.0, *numbers.sample(INTERESTING, 2)) + labels
        payload += numbers.randbytes(numbers.randrange(9))
        length = len(payload) if numbers.randrange(8) else numbers.choice(INTERESTING) % 2**29
        kind = numbers.choice((0, 0, 0, 1, 2, 3, 7))
        parts.append(struct.pack("<II", 0xCED7230A, kind << 29 | length) + payload)
        parts.append(bytes(-len(payload) % 4))
    return b"".join(parts)


def embedding(numbers: random.Random) -> bytes:
    """Return lines of tokens and as many numbers each."""
    length = numbers.randrange(1, 4)
    lines = []
    for _ in range(numbers.randrange(4)):
        token = numbers.choice(("a", "b", "<unk>", "", "\x85", "\u2028", "é"))
        texts = [text_number(numbers) if numbers.randrange(3) == 0 else "0.5"
                 for _ in range(length + (numbers.randrange(12) == 0))]  # fmt: skip
        lines.append(" ".join((token, *texts)))
    return "\n".join(lines).encode()


def png(numbers: random.Random) -> bytes:
    """Return a PNG image with right checksums and a header at its limits."""
    width, height = (extent(numbers, 32) for _ in range(2))
    depth, color = numbers.choice(((8, 0), (8, 2), (8, 6), (1, 0), (16, 2), (4, 3), (8, 3), (8, 4)))
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, numbers.randrange(2))
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    rows = _content(numbers, height * (1 + (width * channels * depth + 7) // 8))
    parts = [png_chunk(b"IHDR", head)]
    if color == 3 or numbers.randrange(4) == 0:
        parts.append(png_chunk(b"PLTE", numbers.randbytes(numbers.choice((0, 3, 4, 48, 768, 771)))))
    if numbers.randrange(3) == 0:
        parts.append(png_chunk(b"tRNS", numbers.randbytes(numbers.choice((0, 1, 2, 6, 256)))))
    if numbers.randrange(3) == 0:
        parts.append(png_chunk(b"eXIf", exif(numbers)))
    parts += [png_chunk(b"IDAT", zlib.compress(rows)), png_chunk(b"IEND", b"")]
    if numbers.randrange(6) == 0:
        numbers.shuffle(parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def exif(numbers: random.Random) -> bytes:
    """Return a TIFF header and a table of tags, with offsets and counts at their limits."""
    order = numbers.choice("<>")
    offset = numbers.choice((8, 8, 8, 0, 2**31, 2**32 - 1, 2**32 - 8))
    tags = []
    for _ in range(numbers.randrange(3)):
        tag, kind = numbers.choice((0x112, 0x112, 1)), numbers.choice((3, 3, 4))
        count = numbers.choice((1, 1, 0, 2**32 - 1))
        value = numbers.choice(INTERESTING) % 2**32
        tags.append(struct.pack(order + "HHII", tag, kind, count, value))
    count = len(tags) if numbers.randrange(4) else 65535
    begin = b"II*\0" if order == "<" else b"MM\0*"
    head = begin + struct.pack(order + "I", offset)
    return head + struct.pack(order + "H", count) + b"".join(tags)


def json_table(numbers: random.Random) -> bytes:
    """Return the table of contents of a checkpoint with one array, of its sizes or others."""
    shape = extents(numbers)
    entry = {
        "name": "a", "kind": numbers.choice(("mxlite", "numpy")),
        "dtype": numbers.choice(("float32", "int8", "bfloat16", "bool", "(1,", "f4,f4", "float128",
                                 "object", "<f4", "longdouble", "M8[s]", "complex64")),
        "shape": list(shape), "bytes": 0, "crc32c": 0, "offset": 64,
    }  # fmt: skip
    sizes = {"float32": 4, "int8": 1, "bfloat16": 2, "bool": 1, "<f4": 4}
    entry["bytes"] = math.prod(shape) * sizes.get(entry["dtype"], 16)
    part = {"array": numbers.choice((0, 0, 0, -1, True, 2**63))}
    kind = numbers.choice(("row_sparse", "csr", "default", 5))
    tree = numbers.choice((
        part,
        {"tuple": [part, part]},
        {"dict": [[{"list": []}, 1]]},
        {"bytes": "0g"},
        {"sparse": kind, "shape": list(extents(numbers, 2)), "values": part,
         "indices": numbers.choice((part, None, {"list": [0, 2**63]})), "indptr": part},
        {"sparse": kind, "shape": list(extents(numbers, 2)), "values": None, "indices": None,
         "indptr": None},
    ))  # fmt: skip
    return json.dumps({"saved": "", "arrays": [entry], "tree": tree}).encode()


CRAFTED: dict[str, Callable[[random.Random], bytes]] = {
    "params_file": params,
    "npz": npz,
    "states": states,
    "objects": objects,
    "idx": idx,
    "index": index,
    "records": records,
    "image": png,
    "embedding": embedding,
}
