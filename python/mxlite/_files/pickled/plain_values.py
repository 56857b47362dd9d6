"""Makers for values of Python's built-in types that pickles write as calls."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
import re
import uuid
from typing import Any, Callable

from .numpy_values import raw_bytes
from .values import Maker, PickleContentError, Spender, Unfinished, check_key

_Make = Callable[[tuple[Any, ...], Spender], Any]
_MOST_DIGITS = 4000


def plain_maker(module: str, name: str) -> Maker | None:
    """Return the maker of a plain type of Python, or None."""
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    make = _MAKERS.get((module, name))
    return make and Maker(make, name)


def _expect(args: tuple[Any, ...], *kinds: type, least: int | None = None) -> None:
    """Check the number of arguments and their types; bool is not accepted as int."""
    if not (len(kinds) if least is None else least) <= len(args) <= len(kinds):
        raise PickleContentError(f"number of arguments must be {len(kinds)}, got {len(args)}")
    for argument, kind in zip(args, kinds):
        if kind is not object and type(argument) is not kind:
            raise PickleContentError(
                f"argument must be {kind.__name__}, got {type(argument).__name__}"
            )


def _encoded(args: tuple[Any, ...], spend: Spender) -> bytes:
    _expect(args, str, str)
    if args[1] not in ("latin1", "latin-1"):
        raise PickleContentError(f"encoding must be latin1, got {args[1][:20]!r}")
    spend(len(args[0]))
    return args[0].encode("latin1")


def _bytes_like(kind: type) -> _Make:
    def make(args: tuple[Any, ...], spend: Spender) -> Any:
        if len(args) == 2:
            args = (_encoded(args, spend),)
        if len(args) > 1:
            raise PickleContentError(f"number of arguments must be 1, got {len(args)}")
        raw = raw_bytes(args[0]) if args else b""
        spend(len(raw))
        return kind(raw)

    return make


def _set_of(kind: type) -> _Make:
    def make(args: tuple[Any, ...], spend: Spender) -> Any:
        _expect(args, list, least=0)
        items = args[0] if args else []
        spend(64 * len(items))
        for item in items:
            check_key(item)
        return kind(items)

    return make


def _ordered(args: tuple[Any, ...], spend: Spender) -> Any:
    _expect(args, list, least=0)
    result: collections.OrderedDict[Any, Any] = collections.OrderedDict()
    pairs = args[0] if args else []
    spend(128 * len(pairs))
    for pair in pairs:
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise PickleContentError("arguments must be pairs of key and value")
        check_key(pair[0])
        result[pair[0]] = pair[1]
    return result


def _counter(args: tuple[Any, ...], spend: Spender) -> Any:
    _expect(args, dict, least=0)
    spend(64 * len(args[0]) if args else 0)
    return collections.Counter(*args)


def _deque(args: tuple[Any, ...], spend: Spender) -> Any:
    most = args[1] if len(args) == 2 else None
    if (args and args[0] not in ((), [])) or not (most is None or type(most) is int):
        raise PickleContentError(
            "the first argument must be an empty list or tuple, the second an integer or None"
        )
    return collections.deque([], most)


def _numbers(kind: Callable[..., Any], *kinds: type) -> _Make:
    def make(args: tuple[Any, ...], spend: Spender) -> Any:
        _expect(args, *kinds)
        return kind(*args)

    return make


def _slice(args: tuple[Any, ...], spend: Spender) -> Any:
    if len(args) != 3 or any(type(entry) not in (int, type(None)) for entry in args):
        raise PickleContentError("arguments must be three integers or None")
    return slice(*args)


def _decimal(args: tuple[Any, ...], spend: Spender) -> Any:
    _expect(args, str)
    if len(args[0]) > _MOST_DIGITS:
        raise PickleContentError(f"number must have at most {_MOST_DIGITS} digits")
    return decimal.Decimal(args[0])


def _fraction(args: tuple[Any, ...], spend: Spender) -> Any:
    if len(args) == 2:
        _expect(args, int, int)
        return fractions.Fraction(*args)
    _expect(args, str)
    if len(args[0]) > _MOST_DIGITS or not re.fullmatch(r"-?\d+(/\d+)?", args[0]):
        raise PickleContentError("arguments must be two integers")
    return fractions.Fraction(args[0])


def _path(args: tuple[Any, ...], spend: Spender) -> Any:
    if any(type(part) is not str for part in args):
        raise PickleContentError("arguments must be the parts of a path")
    spend(sum(map(len, args)))
    return pathlib.PurePosixPath(*args)


def _own_path(args: tuple[Any, ...], spend: Spender) -> Any:
    return pathlib.Path(_path(args, spend))


# -- times ---------------------------------------------------------------------------------------


def _zone(args: tuple[Any, ...]) -> Any:
    _expect(args, datetime.timezone, least=0)
    return args[0] if args else None


def _clock(raw: bytes, fold: int) -> list[int]:
    hour, minute, second = raw[0], raw[1], raw[2]
    return [hour - 128 * fold, minute, second, int.from_bytes(raw[3:6], "big")]


def _date(args: tuple[Any, ...], spend: Spender) -> Any:
    raw = _fixed(args, 4)
    return datetime.date(raw[0] * 256 + raw[1], raw[2], raw[3])


def _datetime(args: tuple[Any, ...], spend: Spender) -> Any:
    raw = _fixed(args, 10)
    fold = int(raw[2] > 127)
    day = [raw[0] * 256 + raw[1], raw[2] - 128 * fold, raw[3]]
    return datetime.datetime(*day, *_clock(raw[4:], 0), _zone(args[1:]), fold=fold)  # type: ignore[misc,arg-type]


def _time(args: tuple[Any, ...], spend: Spender) -> Any:
    raw = _fixed(args, 6)
    fold = int(raw[0] > 127)
    return datetime.time(*_clock(raw, fold), _zone(args[1:]), fold=fold)  # type: ignore[misc,arg-type]


def _fixed(args: tuple[Any, ...], size: int) -> bytes:
    raw = raw_bytes(args[0]) if args else b""
    if len(raw) != size:
        raise PickleContentError(f"number of bytes must be {size}, got {len(raw)}")
    return raw


def _timezone(args: tuple[Any, ...], spend: Spender) -> Any:
    _expect(args, datetime.timedelta, str, least=1)
    return datetime.timezone(*args)


class _Uuid(Unfinished):
    def __init__(self) -> None:
        self._made: uuid.UUID | None = None

    def build(self, state: Any, spend: Spender) -> None:
        number = state.get("int") if type(state) is dict else None
        if type(number) is not int:
            raise PickleContentError(
                f"the state of a UUID must hold an int under 'int', got {type(number).__name__}"
            )
        self._made = uuid.UUID(int=number)

    def value(self, finish: Callable[[Any], Any]) -> Any:
        if self._made is None:
            raise PickleContentError("a UUID must have a state, got none")
        return self._made


def _uuid(args: tuple[Any, ...], spend: Spender) -> Any:
    _expect(args)
    return _Uuid()


_MAKERS: dict[tuple[str, str], _Make] = {
    ("_codecs", "encode"): _encoded,
    ("builtins", "bytearray"): _bytes_like(bytearray),
    ("builtins", "bytes"): _bytes_like(bytes),
    ("builtins", "complex"): _numbers(complex, float, float),
    ("builtins", "frozenset"): _set_of(frozenset),
    ("builtins", "range"): _numbers(range, int, int, int),
    ("builtins", "set"): _set_of(set),
    ("builtins", "slice"): _slice,
    ("builtins", "xrange"): _numbers(range, int, int, int),  # in protocols 0 to 2
    ("collections", "Counter"): _counter,
    ("collections", "OrderedDict"): _ordered,
    ("collections", "deque"): _deque,
    ("datetime", "date"): _date,
    ("datetime", "datetime"): _datetime,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _numbers(datetime.timedelta, int, int, int),
    ("datetime", "timezone"): _timezone,
    ("decimal", "Decimal"): _decimal,
    ("fractions", "Fraction"): _fraction,
    ("pathlib", "PosixPath"): _own_path,
    ("pathlib", "PurePosixPath"): _path,
    ("pathlib._local", "PosixPath"): _own_path,
    ("pathlib._local", "PurePosixPath"): _path,
    ("uuid", "UUID"): _uuid,
}
