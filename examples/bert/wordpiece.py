"""WordPiece: a vocabulary trained from text, and the division of text into its tokens."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_LONGEST_WORD = 100  # characters; longer words are unknown


def train_vocabulary(lines: Iterable[str], size: int) -> list[str]:
    """Return a vocabulary for uncased text.

    Parameters
    ----------
    lines : iterable of str
        The text.
    size : int
        Greatest number of tokens, the special ones included.

    Returns
    -------
    list of str
        The special tokens, then single characters and pieces.

    Raises
    ------
    SystemExit
        Without the package ``tokenizers``, or if the size is too small.
    """
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    except ImportError as error:
        raise SystemExit(
            f"bert: training a vocabulary needs the package tokenizers ({error}): pip install "
            "tokenizers, or give a vocabulary with --vocab"
        ) from None
    if size < 64:
        raise SystemExit(f"bert: --vocab_size must be at least 64, got {size}")
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=lambda token: ids[token])


def write_vocabulary(path: str | Path, vocabulary: list[str]) -> None:
    """Write one token per line.

    Parameters
    ----------
    path : str or path
        ``vocab.txt`` of the original BERT has this form.
    vocabulary : list of str
        Tokens in the order of their ids.
    """
    Path(path).write_text("".join(token + "\n" for token in vocabulary), encoding="utf-8")


def read_vocabulary(path: str | Path) -> list[str]:
    """Return the tokens of a file in the order of their ids.

    Parameters
    ----------
    path : str or path
        A file with one token per line.

    Returns
    -------
    list of str

    Raises
    ------
    SystemExit
        If the file is missing, is no text, repeats a token, or lacks a special token.
    """
    try:
        tokens = Path(path).read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"bert: vocabulary {path} cannot be read: {error}") from None
    missing = [token for token in SPECIAL if token not in tokens]
    if missing:
        raise SystemExit(
            f"bert: vocabulary {path} must have one token per line, {', '.join(SPECIAL)} among "
            f"them; it lacks {', '.join(missing)}"
        )
    if len(set(tokens)) != len(tokens):
        seen: set[str] = set()
        double = next(token for token in tokens if token in seen or seen.add(token))
        raise SystemExit(
            f"bert: tokens of vocabulary {path} must be distinct, got {double!r} twice"
        )
    return tokens


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    ascii_sign = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_sign or unicodedata.category(character).startswith("P")


def _is_ideograph(character: str) -> bool:
    code = ord(character)
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


def words(text: str) -> list[str]:
    """Return lower-case words without accents; each punctuation mark is a word.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
    """
    spaced = []
    for character in unicodedata.normalize("NFD", text).lower():
        category = unicodedata.category(character)
        if category == "Mn" or character == "\ufffd":
            continue
        if character.isspace():
            spaced.append(" ")
        elif category.startswith("C"):
            continue
        elif _is_punctuation(character) or _is_ideograph(character):
            spaced.append(f" {character} ")
        else:
            spaced.append(character)
    return "".join(spaced).split()


class WordPiece:
    """Division of text into the longest pieces that a vocabulary has.

    Parameters
    ----------
    vocabulary : list of str
        Tokens in the order of their ids; pieces inside a word begin with ``##``.
    """

    def __init__(self, vocabulary: list[str]) -> None:
        self.vocabulary = vocabulary
        self._ids = {token: number for number, token in enumerate(vocabulary)}
        self.pad, self.unknown, self.begin, self.separator, self.mask = (
            self._ids[token] for token in SPECIAL
        )
        self.inside = [token.startswith("##") for token in vocabulary]
        self._known: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of int
        """
        found: list[int] = []
        for word in words(text):
            pieces = self._known.get(word)
            if pieces is None:
                pieces = self._known[word] = self._pieces(word)
            found += pieces
        return found

    def _pieces(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self.unknown]
        found, begin = [], 0
        while begin < len(word):
            mark = "##" if begin else ""
            for end in range(len(word), begin, -1):
                token = self._ids.get(mark + word[begin:end])
                if token is not None:
                    break
            else:
                return [self.unknown]
            found.append(token)
            begin = end
        return found
