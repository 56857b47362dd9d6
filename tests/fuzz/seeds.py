"""Valid inputs of every parser: what the fuzzers begin to change."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_DATA = Path(__file__).resolve().parent.parent / "data"
_MAGIC = 0xCED7230A


def _record(payload: bytes, part: int = 0) -> bytes:
    head = struct.pack("<II", _MAGIC, part << 29 | len(payload))
    return head + payload + bytes(-len(payload) % 4)


def png_chunk(kind: bytes, content: bytes) -> bytes:
    """Return a part of a PNG image with its checksum."""
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png(width: int, height: int, color: int, interlaced: int = 0) -> bytes:
    """Return a PNG image of 8 bits per channel; color: 0 gray, 2 RGB, 6 RGBA."""
    channels = {0: 1, 2: 3, 6: 4}[color]
    rows = b"".join(
        b"\0" + bytes((x * y) % 256 for x in range(width * channels)) for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, interlaced)
    parts = [
        png_chunk(b"IHDR", head),
        png_chunk(b"IDAT", zlib.compress(rows)),
        png_chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _seeds() -> dict[str, list[bytes]]:
    whole = b"".join(_record(bytes(range(length))) for length in (0, 1, 4, 30, 100))
    divided = _record(b"abcd", 1) + _record(b"efgh1234", 2) + _record(b"xyz", 3)
    jpeg = (_DATA / "gradient.jpg").read_bytes()
    images = [jpeg, png(9, 5, 0), png(9, 5, 2), png(9, 5, 6)]
    texts = [b"1,2.5,-3e4\n4, 5 ,6\r\n\n7,8,+9,\n", b"1 0:1.5 7:2\n-1\n0.5 3:-1e3 5:4 # end\n"]
    name = struct.pack("<I", 3) + b"key"
    bodies = [
        struct.pack("<I", 5) + b"1.0.0" + struct.pack("<BiIQ", 1, 2, 3, 0),
        name + struct.pack("<IBqqq", 0, 0, 6, 2, 0),
        name + struct.pack("<IQBBfIq", 0, 1, 0, 0, 0.5, 1, 4),
        struct.pack("<QI", 7, 4) + b"text",
        struct.pack("<I", 1) + name + struct.pack("<Iq", 1, 24) + name + b"\1",
    ]
    bodies += [
        struct.pack("<Bi", 2, 1) + name + struct.pack("<qI", 12, 11) + b"127.0.0.1:7"
        + struct.pack("<Biidd", 0, 4, 0, 600.0, 60.0),
        struct.pack("<QBI", 9, 2, 3) + struct.pack("<BI", 2, 1) + name + name,
        struct.pack("<QBBI", 9, 1, 0, 0) + struct.pack("<IBI", 1, 1, 1) + name + name
        + struct.pack("<I", 0),
        struct.pack("<Q", 9) + name,
    ]  # fmt: skip
    sized = [struct.pack("<Q", len(text)) + text for text in (b"key", b"f<int>", b"_Z1f", b"image")]
    kernel = sized[0] + struct.pack("<I", 1) + sized[1] + sized[2] + sized[3]
    return {
        "kernel": [b"\0" + kernel],
        "record": [whole, divided, whole + divided],
        "text": [bytes([kind, choice]) + text for kind, text in enumerate(texts)
                 for choice in (2, 9, 64)],
        "image": [bytes([choice]) + image for image in images for choice in (0, 1, 133)],
        "frame": [bytes([choice]) + body for body in bodies for choice in range(19)],
        "params": [path.read_bytes() for path in sorted(_DATA.glob("mxnet_1_9_1/*.params"))],
        "json": [b'{"name": "sgd", "lr": 0.1, "list": [1, -2e3, true, null, "\\u00e9\\n"]}'],
    }  # fmt: skip


def write_seeds(folder: Path) -> None:
    """Write a folder of valid inputs for each target."""
    for target, seeds in _seeds().items():
        place = folder / target
        place.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (place / f"seed_{number:03d}").write_bytes(seed)
