"""Random changes of bytes, JSON values, lines and pickles."""

from __future__ import annotations

import json
import pickletools
import random
import re
import struct
from typing import Any

# Numbers at which sizes, signs and products of sizes change their meaning.
INTERESTING = (
    0, 1, 2, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1,
    2**40, 2**53 + 1, 2**61, 2**61 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
_TEXTS = ("", "a", "\0", "../..", "null", "é" * 40, "\ud800", "x" * 300, "__class__", "f4,", "(1,")
_MOST_BYTES = 1 << 16


def extent(numbers: random.Random, bits: int = 64) -> int:
    """Return the extent of an axis: small, zero, or at a limit of integers of some bits."""
    kind = numbers.randrange(10)
    if kind < 6:
        return numbers.randrange(1, 5)
    if kind < 8:
        return 0
    return numbers.choice(INTERESTING) % 2**bits


def extents(numbers: random.Random, ndim: int | None = None, bits: int = 64) -> tuple[int, ...]:
    """Return the extents of a shape; a shape with a zero often has huge extents as well."""
    ndim = numbers.choice((0, 1, 1, 2, 2, 3, 4, 33)) if ndim is None else ndim
    shape = [extent(numbers, bits) for _ in range(ndim)]
    if shape and numbers.randrange(4) == 0:
        shape[numbers.randrange(ndim)] = 0
    return tuple(shape)


def text_number(numbers: random.Random) -> str:
    """Return a number as text files write it, often one that few types hold."""
    value = numbers.choice(INTERESTING) * numbers.choice((1, 1, -1))
    kinds = (str(value), f"{value}.5", f"{value}e9", "1e309", "-1e309", "nan", "inf", "1e-400",
             "9" * 5000, "0x10", "1_0", "٣", "", "+", "-", "1e", ".")  # fmt: skip
    return kinds[0] if numbers.randrange(2) else numbers.choice(kinds)


def mutated(content: bytes, numbers: random.Random) -> bytes:
    """Return a copy with up to five changes of bytes."""
    data = bytearray(content)
    for _ in range(numbers.randint(1, 5)):
        if not data:
            return bytes(data)
        at = numbers.randrange(len(data))
        size = min(numbers.choice((1, 2, 4, 8, 16, 40)), len(data) - at)
        kind = numbers.randrange(9)
        if kind == 0:
            data[at] ^= 1 << numbers.randrange(8)
        elif kind == 1:
            data[at] = numbers.randrange(256)
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            place = numbers.randrange(len(data))
            data[place:place] = data[at : at + size]
        elif kind == 4:
            data[at : at + size] = bytes([numbers.randrange(256)]) * size
        elif kind in (5, 6):  # the second at a multiple of four, where most formats have numbers
            at -= at % 4 if kind == 6 else 0
            value = numbers.choice(INTERESTING)
            layout = numbers.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
            value &= 2 ** (8 * struct.calcsize(layout)) - 1
            raw = struct.pack(layout, value)
            data[at : at + len(raw)] = raw
        elif kind == 7:
            text = numbers.choice((b"-1", b"9" * 20, b"1e309", b"nan", b"null", b"{}", b"[]"))
            data[at : at + len(text)] = text
        else:
            del data[at:]
    return bytes(data[:_MOST_BYTES] if len(content) < _MOST_BYTES else data)


# -- JSON ------------------------------------------------------------------------------------------


def _leaf(numbers: random.Random) -> Any:
    kind = numbers.randrange(8)
    if kind < 3:
        return numbers.choice(INTERESTING) * numbers.choice((1, -1))
    if kind == 3:
        return numbers.choice((0.5, -1e308, 1e400, float("nan")))
    if kind == 4:
        return numbers.choice((None, True, False))
    if kind == 5:
        return numbers.choice(_TEXTS)
    if kind == 6:
        return text_number(numbers)
    return numbers.choice(([], {}, [[]], [1, 2], {"a": 1}, [[0, 0, 0]], [2**63, 0, 2**62]))


def _places(value: Any, found: list[tuple[Any, Any]]) -> None:
    keys: Any = ()
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        found.append((value, key))
        _places(value[key], found)


def _change(value: Any, numbers: random.Random) -> Any:
    """Change one place of a tree; return the tree."""
    places: list[tuple[Any, Any]] = []
    _places(value, places)
    if not places:
        return _leaf(numbers)
    holder, key = numbers.choice(places)
    kind = numbers.randrange(8)
    inside = list(re.finditer(r"-?\d+", holder[key])) if isinstance(holder[key], str) else []
    if inside and kind < 5:  # parameters of operators are texts such as "(3, 3)"
        found = numbers.choice(inside)
        new = str(numbers.choice(INTERESTING) * numbers.choice((1, 1, -1)))
        holder[key] = holder[key][: found.start()] + new + holder[key][found.end() :]
    elif kind < 3:
        holder[key] = _leaf(numbers)
    elif kind == 3:  # a number next to the present one
        old = holder[key]
        holder[key] = old + numbers.choice((-1, 1)) if type(old) is int else [old]
    elif kind == 4:
        del holder[key]
    elif kind == 5:
        other, place = numbers.choice(places)
        if isinstance(place, int) and place >= len(other):  # it is inside the removed part
            return value
        holder[key] = json.loads(json.dumps(other.get(place) if isinstance(other, dict)
                                            else other[place]))  # fmt: skip
    elif kind == 6 and isinstance(holder, list):
        holder.insert(key, json.loads(json.dumps(holder[key])))
    elif isinstance(holder, dict):
        holder[numbers.choice(_TEXTS)] = holder.pop(key)
    else:
        holder.append(_leaf(numbers))
    return value


def mutated_json(text: bytes, numbers: random.Random) -> bytes:
    """Return a JSON text whose tree has up to four changes; other texts change as bytes."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return mutated(text, numbers)
    for _ in range(numbers.randint(1, 4)):
        tree = _change(tree, numbers)
    if numbers.randrange(40) == 0:
        return b"[" * 100_000 + b"]" * numbers.choice((0, 100_000))
    result = json.dumps(tree).encode()
    return result if len(result) < 8 * (len(text) + 4096) else text


# -- lines -----------------------------------------------------------------------------------------


def mutated_lines(text: bytes, numbers: random.Random) -> bytes:
    """Return a text in which up to four fields of lines are replaced, added or removed."""
    lines = [line.replace(b"\t", b" \t ").split(b" ") for line in text.split(b"\n")][:200]
    for _ in range(numbers.randint(1, 4)):
        line = numbers.choice(lines)
        at = numbers.randrange(len(line) + 1)
        kind = numbers.randrange(6)
        new = text_number(numbers).encode() if numbers.randrange(3) else (
            numbers.choice(_TEXTS).encode("utf-8", "surrogatepass"))  # fmt: skip
        if kind < 3 and at < len(line):
            line[at] = new
        elif kind == 3:
            line.insert(at, new)
        elif kind == 4 and at < len(line):
            del line[at]
            line += [] if line else [b""]
        else:
            lines.insert(numbers.randrange(len(lines) + 1), list(line))
    return b"\n".join(b" ".join(line).replace(b" \t ", b"\t") for line in lines)


# -- pickles ---------------------------------------------------------------------------------------

_SIMPLE = [
    bytes([code]) for code in b"(012N)]}tale\x85\x86\x87\x88\x89\x8f\x90\x91\x93Rbsud\x81\x94"
]


def integer(value: int) -> bytes:
    """Return the opcode that pushes an integer."""
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def mutated_pickle(content: bytes, numbers: random.Random) -> bytes:
    """Return a pickle with up to four changed opcodes; damaged ones change as bytes."""
    try:
        found = [(code.name, argument, at) for code, argument, at in pickletools.genops(content)]
    except (ValueError, IndexError, UnicodeDecodeError):
        return mutated(content, numbers)
    ends = [at for _, _, at in found[1:]] + [len(content)]
    parts = [content[at:end] for (_, _, at), end in zip(found, ends)]
    for _ in range(numbers.randint(1, 4)):
        at = numbers.randrange(len(found))
        name, argument, _ = found[at]
        kind = numbers.randrange(8)
        if kind < 3 and type(argument) is int and "PUT" not in name and name != "PROTO":
            parts[at] = integer(numbers.choice(INTERESTING) * numbers.choice((1, -1)))
        elif kind < 3 and type(argument) is bytes:
            raw = mutated(argument, numbers) if numbers.randrange(3) else b""
            parts[at] = b"B" + struct.pack("<I", len(raw)) + raw
        elif kind < 3 and type(argument) is str and "UNICODE" in name:
            raw = numbers.choice(("O", "V8", "f2", "U9", "U99999999", "b1", *_TEXTS)).encode(
                "utf-8", "surrogatepass")  # fmt: skip
            parts[at] = b"X" + struct.pack("<I", len(raw)) + raw
        elif kind == 3:
            parts[at] = b""
        elif kind == 4:
            parts[at] = parts[at] * 2
        elif kind == 5:
            parts[at] = numbers.choice(parts)
        else:
            parts[at] = numbers.choice(_SIMPLE)
    return b"".join(parts)
