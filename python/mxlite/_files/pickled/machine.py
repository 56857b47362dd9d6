"""The opcode interpreter: a stack, a memo, and values of the types in a table of names."""

from __future__ import annotations

import codecs
import collections
import struct
from collections.abc import Mapping
from typing import Any, Callable

from .finish import finished
from .values import Maker, Makers, PickleContentError, Unfinished, check_key

# Limits of the bytes that constructors copy, because one opcode can copy a text of any length.
_FREE_BYTES = 256 << 20
_BYTES_PER_BYTE = 8
_CONTAINER_BYTES = 64
_MOST_DIGITS = 4000


def read_pickle(
    data: bytes, makers: Makers, python2_text: str = "latin1", most_entries: int | None = None
) -> Any:
    """Return the value of a pickle of protocol 0 to 5."""
    return read_pickle_at(0, data, makers, None, python2_text, most_entries)[0]


def read_pickle_at(
    begin: int,
    data: bytes,
    makers: Makers,
    persistent: Callable[[Any], Any] | None,
    python2_text: str = "latin1",
    most_entries: int | None = None,
) -> tuple[Any, int]:
    """Return the value of the pickle that begins at an offset, and the offset of its end.

    ``persistent`` returns the object of a persistent id, which the value names but does not hold.
    """
    machine = _Machine(bytes(data), makers, python2_text, persistent, begin)
    try:
        return finished(machine.run(), most_entries), machine.end
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise PickleContentError(f"offset {machine.begin}: {str(error)[:300]}") from None


class _Mark:
    """Marks the start of a group of values on the stack."""


_MARK = _Mark()


class _Machine:
    def __init__(
        self,
        data: bytes,
        makers: Makers,
        python2_text: str,
        persistent: Callable[[Any], Any] | None,
        begin: int,
    ) -> None:
        self._data = data
        self._at = begin
        self._persistent = persistent
        self.begin = begin  # offset of the current opcode
        self._makers = makers
        self._python2_bytes = python2_text == "bytes"
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._left = _FREE_BYTES + _BYTES_PER_BYTE * len(data)
        self._found: dict[tuple[str, str], Maker] = {}

    def run(self) -> Any:
        """Interpret opcodes up to the end of the pickle."""
        data = self._data
        while True:
            self.begin = self._at
            if self._at >= len(data):
                raise PickleContentError("the pickle has no end (truncated)")
            code = data[self._at]
            self._at += 1
            if code == _STOP:
                value = self._pop()
                if self._stack:
                    raise PickleContentError(
                        f"the stack must be empty at the end, got {len(self._stack)} values"
                    )
                return value
            operation = _OPERATIONS.get(code)
            if operation is None:
                raise PickleContentError(f"the opcode {bytes([code])!r} is not allowed")
            operation(self)

    @property
    def end(self) -> int:
        """Offset behind the last opcode that ran."""
        return self._at

    # -- bytes -----------------------------------------------------------------------------------

    def _take(self, size: int) -> bytes:
        left = len(self._data) - self._at
        if size < 0 or size > left:
            raise PickleContentError(f"at least {size} bytes must follow, got {left} (truncated)")
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _line(self) -> bytes:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise PickleContentError("a line must end with a newline (truncated)")
        line = self._data[self._at : end]
        self._at = end + 1
        return line

    def _line_number(self) -> int:
        line = self._line().rstrip(b"L")
        if len(line) > _MOST_DIGITS or not line.lstrip(b"-").isdigit():
            raise PickleContentError(f"text must be an integer, got {line[:20]!r}")
        return int(line)

    def _line_text(self) -> str:
        return _decoded(self._line(), "utf-8", "strict")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise PickleContentError(
                f"values must need at most {_BYTES_PER_BYTE} times the {len(self._data)} bytes of "
                "the pickle"
            )

    # -- stack -----------------------------------------------------------------------------------

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise PickleContentError("the stack must hold a value, got none")
        return self._stack.pop()

    def _top(self, kind: type | tuple[type, ...]) -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            found = type(self._stack[-1]).__name__ if self._stack else "nothing"
            raise PickleContentError(f"the opcode does not apply to {found}")
        return self._stack[-1]

    def _pop_mark(self) -> list[Any]:
        stack = self._stack
        position = len(stack) - 1
        while position >= 0 and stack[position] is not _MARK:
            position -= 1
        if position < 0:
            raise PickleContentError("the beginning of a group of values is missing")
        items = stack[position + 1 :]
        del stack[position:]
        return items

    def _container(self, value: Any) -> None:
        self._spend(_CONTAINER_BYTES)
        self._stack.append(value)

    # -- scalars ---------------------------------------------------------------------------------

    def text(self, size: int) -> None:
        self._push(_decoded(self._take(size), "utf-8", "surrogatepass"))

    def old_text(self, raw: bytes) -> None:
        self._push(raw if self._python2_bytes else raw.decode("latin1"))

    def quoted(self) -> None:
        line = self._line().strip()
        if len(line) < 2 or line[:1] not in b"'\"" or line[-1:] != line[:1]:
            raise PickleContentError(f"text must be quoted, got {line[:20]!r}")
        self.old_text(_unescaped(line[1:-1]))

    def escaped_text(self) -> None:
        self._push(_decoded(self._line(), "raw-unicode-escape", "strict"))

    def int_line(self) -> None:
        mark = self._at
        line = self._line()
        if line in (b"00", b"01"):
            self._push(line == b"01")
        else:
            self._at = mark
            self._push(self._line_number())

    def float_line(self) -> None:
        line = self._line()
        try:
            self._push(float(line[:_MOST_DIGITS]))
        except ValueError:
            raise PickleContentError(f"text must be a number, got {line[:20]!r}") from None

    def long(self, size: int) -> None:
        if size > _MOST_DIGITS:
            raise PickleContentError(
                f"an integer must have at most {_MOST_DIGITS} bytes, got {size}"
            )
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    # -- containers ------------------------------------------------------------------------------

    def appends(self, items: list[Any]) -> None:
        self._spend(8 * len(items))
        target = self._top((list, collections.deque))
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        if len(items) % 2:
            raise PickleContentError("a key of a dict has no value")
        self._spend(_CONTAINER_BYTES * len(items))
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2]):
            check_key(key)
            target[key] = value

    def new_dict(self) -> None:
        items = self._pop_mark()
        self._container({})
        self.set_items(items)

    def add_items(self) -> None:
        items = self._pop_mark()
        self._spend(_CONTAINER_BYTES * len(items))
        for item in items:
            check_key(item)
        self._top(set).update(items)

    def new_frozenset(self) -> None:
        items = self._pop_mark()
        self._spend(_CONTAINER_BYTES * len(items))
        for item in items:
            check_key(item)
        self._container(frozenset(items))

    def pop_or_mark(self) -> None:
        if not self._stack:
            raise PickleContentError("the stack must hold a value, got none")
        self._stack.pop()

    # -- memo ------------------------------------------------------------------------------------

    def put(self, key: int) -> None:
        if not self._stack:
            raise PickleContentError("a value was expected on the stack")
        self._memo[key] = self._stack[-1]

    def get(self, key: int) -> None:
        if key not in self._memo:
            raise PickleContentError(f"the value {key} was never stored")
        self._push(self._memo[key])

    # -- names -----------------------------------------------------------------------------------

    def push_name(self, module: str, name: str) -> None:
        maker = self._found.get((module, name)) or self._makers(module, name)
        if maker is None:
            raise PickleContentError(f"the name {module[:100]}.{name[:100]} is not allowed")
        self._found[module, name] = maker
        self._push(maker)

    def stack_name(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise PickleContentError("the stack must hold a name")
        self.push_name(module, name)

    def call(self) -> None:
        args, maker = self._pop(), self._pop()
        if not isinstance(maker, Maker) or type(args) is not tuple:
            raise PickleContentError("the stack must hold a name and its arguments")
        self._spend(_CONTAINER_BYTES)
        try:
            self._push(maker.make(args, self._spend))
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise PickleContentError(f"{maker.name}: {error}") from None

    def persistent_object(self) -> None:
        key = self._pop()
        if self._persistent is None:
            raise PickleContentError("an object outside of the pickle is not allowed")
        self._push(self._persistent(key))

    def build(self) -> None:
        state = self._pop()
        self._top(Unfinished).build(state, self._spend)


def _decoded(raw: bytes, encoding: str, errors: str) -> str:
    try:
        return raw.decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise PickleContentError(f"a text must be encoded in {encoding}: {error.reason}") from None


def _unescaped(raw: bytes) -> bytes:
    try:
        return codecs.escape_decode(raw)[0]
    except ValueError as error:
        raise PickleContentError(f"a quoted text is damaged: {error}") from None


_STOP = ord(".")
_Operation = Callable[[_Machine], None]


def _ignore_frame(m: _Machine) -> None:
    if m._number("<Q") > len(m._data) - m._at:
        raise PickleContentError("a frame reaches beyond the end (truncated)")


def _protocol(m: _Machine) -> None:
    if (version := m._number("B")) > 5:
        raise PickleContentError(f"protocol must be 0 to 5, got {version}")


def _tuple_of(count: int) -> _Operation:
    def operation(m: _Machine) -> None:
        items = [m._pop() for _ in range(count)]
        m._container(tuple(reversed(items)))

    return operation


def _constant(value: Any) -> _Operation:
    return lambda m: m._push(value)


def _group(method: Callable[[_Machine, list[Any]], None]) -> _Operation:
    return lambda m: method(m, m._pop_mark())


def _set_item(m: _Machine) -> None:
    value, key = m._pop(), m._pop()
    m.set_items([key, value])


def _name_lines(m: _Machine) -> None:
    module, name = m._line_text(), m._line_text()
    m.push_name(module, name)


_BY_OPCODE: Mapping[bytes, _Operation] = {
    b"\x80": _protocol,
    b"\x95": _ignore_frame,
    b"(": _constant(_MARK),
    b"0": _Machine.pop_or_mark,
    b"1": _group(lambda m, items: None),
    b"2": lambda m: m._push(m._top(object)),
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"I": _Machine.int_line,
    b"J": lambda m: m._push(m._number("<i")),
    b"K": lambda m: m._push(m._number("B")),
    b"M": lambda m: m._push(m._number("<H")),
    b"L": lambda m: m._push(m._line_number()),
    b"\x8a": lambda m: m.long(m._number("B")),
    b"\x8b": lambda m: m.long(m._number("<i")),
    b"F": _Machine.float_line,
    b"G": lambda m: m._push(m._number(">d")),
    b"S": _Machine.quoted,
    b"T": lambda m: m.old_text(m._take(m._number("<i"))),
    b"U": lambda m: m.old_text(m._take(m._number("B"))),
    b"V": _Machine.escaped_text,
    b"X": lambda m: m.text(m._number("<I")),
    b"\x8c": lambda m: m.text(m._number("B")),
    b"\x8d": lambda m: m.text(m._number("<Q")),
    b"B": lambda m: m._push(m._take(m._number("<I"))),
    b"C": lambda m: m._push(m._take(m._number("B"))),
    b"\x8e": lambda m: m._push(m._take(m._number("<Q"))),
    b"\x96": lambda m: m._push(bytearray(m._take(m._number("<Q")))),
    b"]": lambda m: m._container([]),
    b"a": lambda m: m.appends([m._pop()]),
    b"e": _group(_Machine.appends),
    b"l": _group(_Machine._container),
    b")": _constant(()),
    b"t": lambda m: m._container(tuple(m._pop_mark())),
    b"\x85": _tuple_of(1),
    b"\x86": _tuple_of(2),
    b"\x87": _tuple_of(3),
    b"}": lambda m: m._container({}),
    b"d": _Machine.new_dict,
    b"s": _set_item,
    b"u": _group(_Machine.set_items),
    b"\x8f": lambda m: m._container(set()),
    b"\x90": _Machine.add_items,
    b"\x91": _Machine.new_frozenset,
    b"c": _name_lines,
    b"\x93": _Machine.stack_name,
    b"R": _Machine.call,
    b"\x81": _Machine.call,  # NEWOBJ: a class and the arguments of its __new__
    b"b": _Machine.build,
    b"Q": _Machine.persistent_object,
    b"p": lambda m: m.put(m._line_number()),
    b"q": lambda m: m.put(m._number("B")),
    b"r": lambda m: m.put(m._number("<I")),
    b"\x94": lambda m: m.put(len(m._memo)),
    b"g": lambda m: m.get(m._line_number()),
    b"h": lambda m: m.get(m._number("B")),
    b"j": lambda m: m.get(m._number("<I")),
}
_OPERATIONS = {code[0]: operation for code, operation in _BY_OPCODE.items()}
