"""Finds statements and conditions inside the function bodies of a C++ source file.

The files are formatted by clang-format, so a binary operator has a space on both sides, while
template brackets, pointers and references have not. Everything here relies on that.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    | (?P<text>R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    | (?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*\.?\d*(?:[eE][+-]?\d+)?|\.\d+)[a-zA-Z]*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign><<=|>>=|<=>|\.\.\.|->|::|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<
        |[-+*/%&|^=!<>?:;,.~(){}\[\]])
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_NO_FUNCTION = {"namespace", "struct", "class", "union", "enum", "extern"}
_NO_VALUES = set("constexpr static static_assert throw using template case alignas".split())
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Token:
    """A token and its position in the source."""

    kind: str  # text, number, name, sign
    text: str
    start: int
    end: int
    spaced: bool  # white space on both sides
    pragma: bool  # behind a preprocessor directive


@dataclass(frozen=True)
class Part:
    """Tokens that can be mutated: ``statement`` with its semicolon, ``value`` or ``condition``."""

    kind: str
    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        """Position of the first character."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Position behind the last character."""
        return self.tokens[-1].end


def tokenize(source: str) -> list[Token]:
    """Return the tokens of C++ source text without comments and preprocessor lines."""
    tokens: list[Token] = []
    position, pragma = 0, False
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise ValueError(f"no token at offset {position}: {source[position : position + 20]!r}")
        position = match.end()
        if match.lastgroup == "directive":
            pragma = True
        elif match.lastgroup != "skip":
            start, end = match.span()
            spaced = source[start - 1 : start].isspace() and source[end : end + 1].isspace()
            tokens.append(Token(str(match.lastgroup), match[0], start, end, spaced, pragma))
            pragma = False
    return tokens


def _closing(tokens: list[Token], opening: int) -> int:
    """Return the index of the bracket that closes ``tokens[opening]``, or the number of tokens."""
    depth = 0
    for i in range(opening, len(tokens)):
        if tokens[i].text in _CLOSING:
            depth += 1
        elif tokens[i].text in _CLOSING.values():
            depth -= 1
            if depth == 0:
                return i
    return len(tokens)


def _opens_block(tokens: list[Token], begin: int, brace: int) -> bool:
    """Whether the brace opens a block (function, lambda, loop) and not a list of values."""
    if brace == begin:
        return True
    before = tokens[brace - 1]
    if before.text in (")", "]", "else", "do", "try", "const", "mutable", "noexcept", "override"):
        return True
    if before.kind != "name" and before.text != ">":
        return False
    # `-> Type {` ends the head of a lambda.
    arrows = [i for i in range(begin, brace) if tokens[i].text == "->"]
    return bool(arrows) and tokens[arrows[-1] - 1].text in (")", "mutable", "noexcept")


def parts(tokens: list[Token]) -> Iterator[Part]:
    """Yield the parts of all function bodies that can be mutated."""
    yield from _walk(tokens, 0, len(tokens), inside=False)


def _walk(tokens: list[Token], begin: int, end: int, inside: bool) -> Iterator[Part]:
    """Yield the parts of one block; ``inside``: of a function."""
    start, i, depth = begin, begin, 0
    while i < end:
        text = tokens[i].text
        if text == "{":
            close = _closing(tokens, i)
            head = {t.text for t in tokens[start:i]}
            outside = not inside and bool(head & _NO_FUNCTION)
            if outside or _opens_block(tokens, start, i):
                if inside:
                    yield from _conditions(tokens[start:i])
                if "constexpr" not in head or "if" in head:
                    yield from _walk(tokens, i + 1, close, inside or not outside)
                if depth == 0:
                    start = close + 1
            i = close
        elif text in "([":
            depth += 1
        elif text in ")]":
            depth -= 1
        elif text == ";" and depth == 0:
            if inside:
                yield from _statement(tokens[start : i + 1])
            start = i + 1
        i += 1


def _conditions(tokens: list[Token]) -> Generator[Part, None, list[Token]]:
    """Yield conditions in front of a statement and return the tokens behind them."""
    while tokens:
        word = tokens[0].text
        if word in ("else", "do"):
            tokens = tokens[1:]
        elif word in ("if", "while", "for") and len(tokens) > 1 and tokens[1].text == "(":
            close = _closing(tokens, 1)
            if close == len(tokens):
                return []  # a lambda in the condition
            within = tokens[2:close]
            if word == "for":
                semicolons = [i for i, t in enumerate(within) if t.text == ";"]
                if len(semicolons) == 2 and not tokens[0].pragma:
                    yield from _statement(within[: semicolons[0] + 1], only_values=True)
                    yield from _condition(within[semicolons[0] + 1 : semicolons[1]])
            elif not {t.text for t in tokens[close + 1 :]} & {"throw"}:
                yield from _condition(within)
            tokens = tokens[close + 1 :]
        else:
            return tokens
    return tokens


def _condition(tokens: list[Token]) -> Iterator[Part]:
    if tokens and not {t.text for t in tokens} & {"=", ";", "constexpr", "{"}:
        yield Part("condition", tuple(tokens))


def _statement(tokens: list[Token], only_values: bool = False) -> Iterator[Part]:
    """Yield the parts of one statement that ends with a semicolon."""
    tokens = yield from _conditions(tokens)
    if len(tokens) < 3 or tokens[0].text in (")", "]", ",", "."):
        return
    texts = {t.text for t in tokens}
    if texts & _NO_VALUES or any(t.text == ";" for t in tokens[:-1]):
        return  # several semicolons: a lambda, whose statements are parts of their own
    if tokens[0].text == "return":
        if tokens[1].text != "{":
            yield Part("value", tuple(tokens[1:-1]))
        return
    values = list(_initializers(tokens))
    for value in values:
        yield Part("value", tuple(value))
    if not only_values and _is_expression(tokens):
        yield Part("statement", tuple(tokens))


def _initializers(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the values behind ``=`` at the top level; commas separate declarators."""
    depth, begin = 0, None
    for i, token in enumerate(tokens):
        if token.text in _CLOSING:
            depth += 1
        elif token.text in _CLOSING.values():
            depth -= 1
        elif depth == 0 and token.text == "=":
            begin = i + 1
        elif depth == 0 and token.text in ",;" and begin is not None:
            if i > begin and tokens[begin].text != "{":
                yield tokens[begin:i]
            begin = None


def _is_expression(tokens: list[Token]) -> bool:
    """Whether a statement is an assignment or a call, and no declaration."""
    for before, token in zip(tokens, tokens[1:]):
        if token.text in ("(", "[", ".", "->", "=", "+=", "-=", "*=", "/=", "%="):
            return before.kind == "name" or before.text in ")]>*"
        if token.kind == "name" and before.text != "::":
            if before is not tokens[0] or before.text not in ("*", "(", "++", "--"):
                return False
    return False
