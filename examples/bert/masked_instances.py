"""Pre-training samples from documents: pairs of segments, and masks on words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from pretraining_samples import KEYS, Samples, checked
from wordpiece import WordPiece

Document = list[list[int]]  # token ids of each sentence


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The rules for making samples; the defaults are those of gluon-nlp.

    Attributes
    ----------
    max_length : int
        Longest sequence, ``[CLS]`` and both ``[SEP]`` included.
    max_predictions : int
        Maximum number of masks of a sample.
    mask_share : float
        Share of the tokens that are masked.
    short_share : float
        Share of the samples whose length is drawn between 2 and the longest.
    whole_words : bool
        Whether all pieces of a word are masked together.
    """

    max_length: int = 128
    max_predictions: int = 20
    mask_share: float = 0.15
    short_share: float = 0.1
    whole_words: bool = False


def make_samples(
    documents: list[Document], pieces: WordPiece, recipe: Recipe, copies: int, seed: int
) -> Samples:
    """Return the samples of all documents in random order.

    Parameters
    ----------
    documents : list
        At least two, from which segments that do not follow are drawn.
    pieces : WordPiece
        Its vocabulary made the ids.
    recipe : Recipe
        Lengths and masks.
    copies : int
        Number of times that the text is used, each time with other segments and masks.
    seed : int
        Equal seeds give equal samples.

    Returns
    -------
    Samples

    Raises
    ------
    SystemExit
        With fewer than two documents, or lengths and shares out of range.
    """
    if recipe.max_length < 8 or not 0 < recipe.mask_share < 1 or recipe.max_predictions < 1:
        raise SystemExit(
            "bert: sequences must have at least 8 tokens, at least 1 mask and a share of masks "
            f"between 0 and 1, got {recipe.max_length}, {recipe.max_predictions} and "
            f"{recipe.mask_share}"
        )
    documents = [kept for kept in ([s for s in d if s] for d in documents) if kept]
    if len(documents) < 2:
        raise SystemExit(
            f"bert: at least 2 documents must have text, got {len(documents)}: a blank line "
            "separates documents"
        )
    random = np.random.RandomState(seed)
    rows: dict[str, list[Any]] = {key: [] for key in KEYS}
    for _ in range(copies):
        for number in range(len(documents)):
            for first, second, is_random in segment_pairs(documents, number, recipe, random):
                _append(rows, first, second, is_random, pieces, recipe, random)
    order = random.permutation(len(rows["input_ids"]))
    shuffled = {key: [values[i] for i in order] for key, values in rows.items()}
    return checked("the text", shuffled, len(pieces), recipe.max_length)


def segment_pairs(
    documents: list[Document], number: int, recipe: Recipe, random: np.random.RandomState
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Yield two segments, and whether the second is from another document.

    Sentences are taken until the target length is reached, and are divided after a random one. In
    half of the cases the rest is put back, and the second segment comes from another document.

    Parameters
    ----------
    documents : list
        All documents.
    number : int
        The document that is divided.
    recipe : Recipe
        Lengths.
    random : numpy.random.RandomState
        Source of all choices.

    Yields
    ------
    tuple
        Token ids of both segments, together at most ``max_length - 3``, and the flag.
    """
    document, most = documents[number], recipe.max_length - 3
    begin = 0
    while begin < len(document):
        target = random.randint(2, most + 1) if random.rand() < recipe.short_share else most
        end, size = begin, 0
        while end < len(document) and size < target:
            size += len(document[end])
            end += 1
        cut = begin + (random.randint(1, end - begin) if end - begin > 1 else 1)
        first = [token for sentence in document[begin:cut] for token in sentence]
        is_random = end - begin == 1 or random.rand() < 0.5
        if is_random:
            other = random.randint(len(documents) - 1)
            chosen = documents[other + (other >= number)]
            start = random.randint(len(chosen))
            second = []
            for sentence in chosen[start:]:
                second += sentence
                if len(second) >= target - len(first):
                    break
            end = cut  # the next instance begins after the cut
        else:
            second = [token for sentence in document[cut:end] for token in sentence]
        yield (*_truncated(first, second, most, random), is_random)
        begin = end


def _truncated(
    first: list[int], second: list[int], most: int, random: np.random.RandomState
) -> tuple[list[int], list[int]]:
    """Shorten the longer segment at a random end until both fit; each keeps a token."""
    counts = [len(first), len(second)]
    front = [0, 0]
    while sum(counts) > most:
        longer = int(counts[1] >= counts[0])
        counts[longer] -= 1
        front[longer] += int(random.rand() < 0.5)
    kept = zip((first, second), front, counts)
    left, right = (tokens[begin : begin + count] for tokens, begin, count in kept)
    return left, right


def _append(
    rows: dict[str, list[Any]],
    first: list[int],
    second: list[int],
    is_random: bool,
    pieces: WordPiece,
    recipe: Recipe,
    random: np.random.RandomState,
) -> None:
    tokens = np.array(
        [pieces.begin, *first, pieces.separator, *second, pieces.separator], dtype="int32"
    )
    segments = np.zeros(len(tokens), "int32")
    segments[len(first) + 2 :] = 1
    positions = mask_positions(tokens, pieces, recipe, random)
    rows["masked_lm_ids"].append(tokens[positions])
    rows["masked_lm_positions"].append(positions)
    rows["masked_lm_weights"].append(np.ones(len(positions), "float32"))
    rows["input_ids"].append(masked(tokens, positions, pieces, random))
    rows["segment_ids"].append(segments)
    rows["next_sentence_labels"].append(int(is_random))
    rows["valid_lengths"].append(len(tokens))


def mask_positions(
    tokens: np.ndarray, pieces: WordPiece, recipe: Recipe, random: np.random.RandomState
) -> np.ndarray:
    """Return the sorted positions that are masked, at least one.

    Parameters
    ----------
    tokens : numpy.ndarray
        Ids of a sample.
    pieces : WordPiece
        Its special tokens are never masked, and it knows which pieces continue a word.
    recipe : Recipe
        Gives the share, the greatest number, and whether words are masked as a whole.
    random : numpy.random.RandomState
        Source of the choice.

    Returns
    -------
    numpy.ndarray
        int32.
    """
    special = (pieces.begin, pieces.separator)
    words: list[list[int]] = []
    for position, token in enumerate(tokens):
        if token in special:
            continue
        continues = recipe.whole_words and pieces.inside[token]
        if continues and words and words[-1][-1] == position - 1:
            words[-1].append(position)
        else:
            words.append([position])
    wanted = min(recipe.max_predictions, max(1, round(len(tokens) * recipe.mask_share)))
    chosen: list[int] = []
    for index in random.permutation(len(words)):
        word = words[index]
        if len(chosen) + len(word) <= wanted:
            chosen += word
        if len(chosen) == wanted:
            break
    if not chosen:  # every word is longer than the number of masks
        chosen = words[random.randint(len(words))][:wanted]
    return np.array(sorted(chosen), dtype="int32")


def masked(
    tokens: np.ndarray, positions: np.ndarray, pieces: WordPiece, random: np.random.RandomState
) -> np.ndarray:
    """Return tokens with 80 % of the positions as ``[MASK]``, 10 % as random tokens.

    Parameters
    ----------
    tokens, positions : numpy.ndarray
        Ids of a sample, and what is masked.
    pieces : WordPiece
        Its vocabulary gives the random tokens.
    random : numpy.random.RandomState
        Source of the choices.

    Returns
    -------
    numpy.ndarray
        A changed copy.
    """
    changed, kinds = tokens.copy(), random.rand(len(positions))
    changed[positions[kinds < 0.8]] = pieces.mask
    drawn = positions[kinds >= 0.9]
    changed[drawn] = random.randint(len(pieces), size=len(drawn))
    return changed
