"""Rules of mutants: each changes one operator, bound, index, constant, condition or sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from statements import Part, Token

_BINARY = {
    "+": ["-"],
    "-": ["+"],
    "*": ["+", "/"],
    "/": ["*"],
    "%": ["/"],
    "<": ["<="],
    "<=": ["<"],
    ">": [">="],
    ">=": [">"],
    "==": ["!="],
    "!=": ["=="],
    "&&": ["||"],
    "||": ["&&"],
}
_ASSIGNMENT = {"+=": ["-=", "="], "-=": ["+=", "="], "*=": ["/=", "="], "/=": ["*=", "="]}
_STD = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor"}
_WORDS = {"true": "false", "false": "true"}


@dataclass(frozen=True)
class Change:
    """One change of a part: text between two positions is replaced."""

    rule: str
    start: int
    end: int
    text: str


def _number(token: Token) -> str | None:
    """Return another constant in place of a number, or None where there is none."""
    text = token.text
    if text.startswith(("0x", "0X")) or "'" in text:
        return None
    digits = text.rstrip("fFlLuU")
    suffix = text[len(digits) :]
    if "." in digits or "e" in digits:
        value = float(digits)
        return f"{value * 2 if value else 1.0!r}{suffix}"
    return f"{int(digits) + 1}{suffix}"


def _is_operand(token: Token) -> bool:
    return token.kind in ("name", "number") and token.text != "return" or token.text in (")", "]")


def changes(part: Part) -> Iterator[Change]:
    """Yield all changes of a part that rules know."""
    tokens = part.tokens
    whole_statement = part.kind == "statement"
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        binary = before is not None and _is_operand(before) and token.spaced
        text = token.text
        if token.kind == "sign" and whole_statement and text in _ASSIGNMENT:
            for other in _ASSIGNMENT[text]:
                yield Change("assignment", token.start, token.end, other)
        elif token.kind == "sign" and binary and text in _BINARY:
            for other in _BINARY[text]:
                yield Change("operator", token.start, token.end, other)
        elif text == "-" and not token.spaced:
            yield Change("sign", token.start, token.end, "")
        elif text == "!":
            yield Change("negation", token.start, token.end, "")
        elif token.kind == "number":
            other_number = _number(token)
            if other_number is not None:
                yield Change("constant", token.start, token.end, other_number)
        elif text in _WORDS:
            yield Change("constant", token.start, token.end, _WORDS[text])
        elif text in _STD and i > 1 and tokens[i - 2].text == "std" and i + 1 < len(tokens):
            if tokens[i + 1].text in ("(", "<"):
                yield Change("function", token.start, token.end, _STD[text])
    if part.kind == "condition":
        yield Change("condition", part.start, part.start, "!")
    if whole_statement and any(t.text in _ASSIGNMENT or t.text == "=" for t in tokens):
        yield Change("statement", part.start, part.end - 1, "")


def schema(source: str, part: Part, change: Change, number: int) -> str:
    """Return the text that stands in for a part: the mutant if its number is chosen."""
    old = source[part.start : part.end]
    before, after = source[part.start : change.start], source[change.end : part.end]
    new = before + change.text + after
    if part.kind == "statement":
        return f"{{ if (mxlite_mutated({number})) {{ {new} }} else {{ {old} }} }}"
    if change.rule == "condition":
        new = f"!({old})"
    return f"(mxlite_mutated({number}) ? ({new}) : ({old}))"
