"""examples/bert: tokens, documents, masks, gluon-nlp's files, batches."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "bert"))
import prepare
import text_documents
from masked_instances import Recipe, make_samples, mask_positions, masked
from numpy.testing import assert_raises_regex
from pretraining_batches import Batches, evaluation_batches
from pretraining_files import read_samples
from pretraining_samples import KEYS, synthetic_samples, write_samples
from wordpiece import SPECIAL, WordPiece, read_vocabulary, train_vocabulary, words

sys.path.append(sys.path.pop(0))  # other examples have modules of the same names

VOCABULARY = [*SPECIAL, *"the cat sat on mat un ##related ##s . , ! a b c ##at".split()]
PIECES = WordPiece(VOCABULARY)


def test_words_are_divided_into_the_longest_pieces() -> None:
    def tokens(text: str) -> list[str]:
        return [VOCABULARY[number] for number in PIECES.encode(text)]

    assert tokens("The CAT sat, unrelated!") == ["the", "cat", "sat", ",", "un", "##related", "!"]
    assert tokens("cats bat zebra") == ["cat", "##s", "b", "##at", "[UNK]"]
    assert tokens("ça\u0301t") == ["cat"]  # accents are dropped
    assert tokens("a" * 101) == ["[UNK]"]
    assert words("x-y 中文\u200b z\x00") == ["x", "-", "y", "中", "文", "z"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            b"[PAD]\n[UNK]\nword\n",
            r"must have one token per line, .*; it lacks \[CLS\], \[SEP\], \[MASK\]",
        ),
        ("\n".join([*SPECIAL, "a", "a"]).encode(), "must be distinct, got 'a' twice"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_wrong_vocabularies(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    assert_raises_regex(SystemExit, problem, read_vocabulary, path)


def test_a_trained_vocabulary_divides_as_its_library_does() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    text = ["the cat sat on the mat .", "cats are related to other cats", "Ünrelated mats!"] * 9
    found = train_vocabulary(text, 90)
    assert found[:5] == SPECIAL
    assert len(found) <= 90
    own = WordPiece(found)
    theirs = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(own._ids, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    theirs.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    for line in [*text, "unrelated: mats, 5 cats; 中 x"]:
        assert own.encode(line) == theirs.encode(line).ids


def test_training_a_vocabulary_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(SystemExit, match="pip install tokenizers, or give a vocabulary"):
        train_vocabulary(["text"], 100)


def test_documents_of_pages_and_texts(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<html><head><title>A title of four words</title></head><body>"
        "<script>var a = 1 + 2</script>"
        "<p>One sentence &amp; more. Another  one\nfollows it!</p><p>Short.</p></body></html>"
    )
    text = tmp_path / "text.txt"
    content = "\ufeffFirst line here,\r\nsecond line.\r\n\r\nOne more paragraph of text"
    text.write_bytes(content.encode())
    assert text_documents.paragraphs(page) == ["One sentence & more. Another one follows it!"]
    found = dict(text_documents.file_documents([page, text, page]))
    assert found == {
        "page.html": ["One sentence & more.", "Another one follows it!"],
        "text.txt": ["First line here, second line.", "One more paragraph of text"],
    }
    raw = tmp_path / "raw.txt"
    raw.write_text("a\nb\n\n\nc\n")
    assert list(text_documents.sentence_documents(raw)) == [["a", "b"], ["c"]]
    share = np.mean([text_documents.is_held_out(str(number), 0.2) for number in range(2000)])
    assert share == pytest.approx(0.2, abs=0.03)


def test_few_documents_are_divided_so_that_both_parts_have_two() -> None:
    names = [str(number) for number in range(4)]
    chosen = text_documents.held_out(names, 1e-9)
    assert len(chosen) == 2
    assert text_documents.held_out(names[::-1], 1e-9) == chosen  # the order does not matter
    many = [str(number) for number in range(500)]
    expected = {name for name in many if text_documents.is_held_out(name, 0.1)}
    assert text_documents.held_out(many, 0.1) == expected
    for names, share in ((["a"], 0.1), (["a", "b", "c"], 0.1), ([], 0.1), (many, 0.999)):
        with pytest.raises(SystemExit, match="must have at least 2 documents with text each, got"):
            text_documents.held_out(names, share)


# Sentences of one document all hold the same word, so that the source of a token is known.
DOCUMENTS = [[[5 + number] * 7 for _ in range(9)] for number in range(4)]


def test_samples_have_two_segments_and_labels_that_are_true() -> None:
    samples = make_samples(DOCUMENTS, PIECES, Recipe(32, 5, short_share=0.3), 20, seed=1)
    labels = []
    for number in range(len(samples)):
        tokens = samples.input_ids[number].copy()
        positions = samples.masked_lm_positions[number]
        tokens[positions] = samples.masked_lm_ids[number]
        assert tokens[0] == PIECES.begin
        ends = np.flatnonzero(tokens == PIECES.separator)
        assert len(ends) == 2 and ends[1] == len(tokens) - 1 == samples.valid_lengths[number] - 1
        assert len(tokens) <= 32
        segments = samples.segment_ids[number]
        np.testing.assert_array_equal(segments, np.arange(len(tokens)) > ends[0])
        first, second = set(tokens[1 : ends[0]]), set(tokens[ends[0] + 1 : -1])
        assert len(first) == len(second) == 1
        assert samples.next_sentence_labels[number] == (first != second)
        labels.append(first != second)
        wanted = min(5, max(1, round(0.15 * len(tokens))))
        assert len(set(positions)) == len(positions) == wanted
    assert 0.45 < np.mean(labels) < 0.7  # a single sentence always gets a random second segment
    again = make_samples(DOCUMENTS, PIECES, Recipe(32, 5, short_share=0.3), 20, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(samples.input_ids, again.input_ids))


def test_masks_are_tokens_of_the_three_kinds() -> None:
    random = np.random.RandomState(0)
    tokens = np.full(40001, 6, "int32")
    positions = np.arange(1, 40001).astype("int32")
    changed = masked(tokens, positions, PIECES, random)[1:]
    assert np.mean(changed == PIECES.mask) == pytest.approx(0.8 + 0.1 / len(PIECES), abs=0.01)
    assert np.mean(changed == 6) == pytest.approx(0.1 + 0.1 / len(PIECES), abs=0.01)
    assert set(changed) == set(range(len(PIECES)))


def test_whole_words_are_masked_together() -> None:
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    word = [ids["un"], ids["##related"], ids["##s"]]
    tokens = np.array([PIECES.begin, *word * 8, PIECES.separator], "int32")
    random = np.random.RandomState(0)
    for _ in range(20):
        recipe = Recipe(max_predictions=7, mask_share=0.3, whole_words=True)
        found = mask_positions(tokens, PIECES, recipe, random)
        assert len(found) == 6  # two words; a third one would be more than 7
        for i in (0, 3):
            assert found[i] % 3 == 1 and list(found[i : i + 3] - found[i]) == [0, 1, 2]
    few = mask_positions(tokens, PIECES, Recipe(max_predictions=2, whole_words=True), random)
    assert len(few) == 2


def test_files_are_read_at_addresses(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    samples = make_samples(DOCUMENTS, PIECES, Recipe(32, 5), 2, seed=1)
    write_samples(tmp_path / "s.npz", samples)
    fsspec.filesystem("memory").pipe_file("/bert/s.npz", (tmp_path / "s.npz").read_bytes())
    read = read_samples("memory://bert/s.npz", len(PIECES), 32)
    for one, other in zip(samples.input_ids, read.input_ids):
        np.testing.assert_array_equal(one, other)
    assert len(read) == len(samples)
    with pytest.raises(SystemExit, match="bert: memory://bert/none.npz cannot be read: there is"):
        read_samples("memory://bert/none.npz", len(PIECES), 32)


def test_files_are_those_of_gluonnlp(tmp_path: Path) -> None:
    samples = make_samples(DOCUMENTS, PIECES, Recipe(32, 5), 2, seed=1)
    path = tmp_path / "samples.npz"
    write_samples(path, samples)
    with np.load(path, allow_pickle=True) as file:
        assert sorted(file.files) == KEYS
        assert file["input_ids"].dtype == object
        assert file["masked_lm_weights"][0].dtype == np.float32
        assert file["next_sentence_labels"].dtype == np.int32
        assert file["input_ids"].shape == (len(samples),)
        stored = {key: file[key] for key in file.files}
    read = read_samples(path, len(PIECES), 32)
    for key in KEYS:
        for one, other in zip(getattr(samples, key), getattr(read, key)):
            np.testing.assert_array_equal(one, other)
    # Rows of one length, as NumPy stores lists of them: two axes, numbers or objects.
    length = samples.valid_lengths.min()
    for dtype in ("int32", object):
        even = {key: stored[key][:2] for key in KEYS}
        even["input_ids"] = np.array([row[:length] for row in even["input_ids"]], dtype=dtype)
        even["segment_ids"] = np.array([row[:length] for row in even["segment_ids"]], dtype=dtype)
        even["valid_lengths"] = np.array([length, length])
        for key in ("masked_lm_ids", "masked_lm_positions", "masked_lm_weights"):
            even[key] = np.array([[1], [2]])
        np.savez(path, **even)
        assert [len(row) for row in read_samples(path, len(PIECES), 32).input_ids] == [length] * 2


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("this must not run",))


class ForgedType:
    """Pickles as the type of objects, without the flag that says so."""

    def __reduce__(self) -> Any:
        return np.dtype, ("O8", False, True), (3, "|", None, None, None, -1, -1, 0)


class ForgedArray:
    """Pickles as an array of objects whose addresses stand in the file."""

    def __reduce__(self) -> Any:
        make = np.zeros(1).__reduce__()[0]
        return make, (np.ndarray, (0,), b"b"), (1, (1,), ForgedType(), False, b"A" * 8)


def changes(path: Path, **new: Any) -> Path:
    """Write four samples of which some arrays are replaced or, with None, left out."""
    samples = make_samples(DOCUMENTS, PIECES, Recipe(32, 5), 1, seed=1)
    arrays: dict[str, Any] = {}
    for key in KEYS:
        rows = np.empty(4, object)
        for number in range(4):
            rows[number] = getattr(samples, key)[number]
        numbers = key in ("valid_lengths", "next_sentence_labels")
        arrays[key] = rows.astype("int32") if numbers else rows
    for key, value in new.items():
        if callable(value):
            value(arrays[key])
        elif value is None:
            del arrays[key]
        else:
            arrays[key] = value
    np.savez(path, **arrays)
    return path


def setting(row: int, value: Any) -> Any:
    def change(array: np.ndarray) -> None:
        array[row] = value

    return change


def _repeated(row: np.ndarray, count: int) -> np.ndarray:
    """Return an array of one row many times, which a pickle holds once."""
    rows = np.empty(count, object)
    for number in range(count):
        rows[number] = row
    return rows


def _nested(depth: int) -> list[Any]:
    """Return a list of 10 to the power of depth numbers that a pickle holds in a few bytes."""
    rows: list[Any] = [0] * 10
    for _ in range(depth - 1):
        rows = [rows] * 10
    return rows


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (
            {"segment_ids": None, "other": np.zeros(4)},
            "got no segment_ids and the unknown arrays other",
        ),
        (
            {"valid_lengths": np.zeros(3, "int32")},
            "numbers of rows must be equal .* valid_lengths 3",
        ),
        ({"input_ids": setting(1, _repeated(np.zeros(1 << 20, "int8"), 300))}, "the rows of an"),
        ({"valid_lengths": setting(2, 0)}, "sample 2 must have .* got .* and length 0"),
        ({"valid_lengths": setting(2, 99)}, "sample 2 must have .* got .* and length 99"),
        (
            {"input_ids": setting(1, np.full(32, 99))},
            "sample 1 must have tokens from 0 to .*, got 99",
        ),
        (
            {
                "input_ids": setting(1, np.full(40, 6)),
                "segment_ids": setting(1, np.zeros(40)),
                "valid_lengths": setting(1, 40),
            },
            "sample 1 must have at most 32 tokens, got 40: see --max_seq_length",
        ),
        (
            {"masked_lm_ids": setting(3, np.array([20]))},
            "sample 3 must have masked tokens from 0 to .*, got 20",
        ),
        (
            {key: setting(0, np.zeros(0)) for key in KEYS if key.startswith("masked")},
            "sample 0 must have equal numbers of masks, at least 1, got 0 masked_lm_ids",
        ),
        (
            {"masked_lm_weights": setting(0, np.ones(1))},
            "equal numbers of masks, .* and 1 masked_lm_weights",
        ),
        (
            {"masked_lm_positions": lambda a: a[0].__setitem__(0, 50)},
            "sample 0 must mask positions from 0 to .*, got 50",
        ),
        (
            {"masked_lm_positions": lambda a: a[0].__setitem__(0, -2)},
            "sample 0 must mask positions from 0 to .*, got -2",
        ),
        (
            {"other": np.zeros(4)},
            "samples.npz must have the arrays input_ids, .* got the unknown arrays other",
        ),
        (
            {"masked_lm_weights": lambda a: a[1].__setitem__(0, np.nan)},
            r"sample 1 must have weights of at least 0, got \[nan",
        ),
        (
            {"masked_lm_weights": lambda a: a[1].__setitem__(0, -1)},
            r"must have weights of at least 0, got \[-1.0",
        ),
        ({"next_sentence_labels": setting(1, 2)}, "sample 1 must have the label 0 or 1, got 2"),
        (
            {"segment_ids": lambda a: a[1].__setitem__(0, 2)},
            "sample 1 must have the segments 0 and 1, got 2",
        ),
        ({"input_ids": setting(1, "text")}, "must have rows of numbers"),
        ({"input_ids": setting(1, np.array([2**32 + 5]))}, "no integers of 32 bits"),
        (
            {"valid_lengths": np.full(4, 1.5)},
            "valid_lengths must be integers: .* no integers of 32 bits",
        ),
        ({"valid_lengths": np.float32(1)}, "numbers of rows must be equal"),
        ({"input_ids": setting(1, _nested(8))}, "no .npz file of arrays: .* entries"),
        ({"input_ids": setting(1, ForgedArray())}, "arrays of objects are not allowed"),
        ({"input_ids": setting(1, Evil())}, r"no .npz file of arrays: .* builtins.print is not"),
    ],
)
def test_wrong_files(tmp_path: Path, new: dict[str, Any], problem: str, capsys: Any) -> None:
    path = changes(tmp_path / "samples.npz", **new)
    assert_raises_regex(SystemExit, problem, read_samples, path, len(PIECES), 32)
    assert "must not run" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and more", b"no archive", pickle.dumps([1])])
def test_files_that_are_no_archives(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "samples.npz"
    path.write_bytes(content)
    assert_raises_regex(SystemExit, r"samples.npz is no .npz file", read_samples, path, 20, 32)
    with pytest.raises(SystemExit, match=r"none.npz cannot be read"):
        read_samples(tmp_path / "none.npz", 20, 32)


def test_texts_without_pairs_or_of_wrong_sizes() -> None:
    with pytest.raises(SystemExit, match="at least 2 documents must have text, got 1"):
        make_samples(DOCUMENTS[:1], PIECES, Recipe(), 1, 0)
    with pytest.raises(SystemExit, match="sequences must have at least 8 tokens, .*, got 4"):
        make_samples(DOCUMENTS, PIECES, Recipe(max_length=4), 1, 0)


def test_batches_of_ranks_are_the_parts_of_the_whole_batch() -> None:
    samples = synthetic_samples(203, 64, 40, 6, seed=2)
    whole = Batches(samples, 8, 3, 40, seed=5)
    parts = [Batches(samples, 4, 3, 40, 5, rank, 2) for rank in range(2)]
    assert len(whole.shapes) == 3
    seen = []
    for _ in range(len(whole) + 2):  # into the next epoch
        batch, *others = next(whole), *map(next, parts)
        seen.append(batch)
        for key in KEYS:
            np.testing.assert_array_equal(batch[key], np.concatenate([o[key] for o in others]))
        assert (batch["input_ids"].shape[1], batch["masked_lm_ids"].shape[1]) in whole.shapes
        for line, length in enumerate(batch["valid_lengths"]):
            assert not batch["input_ids"][line, length:].any()
            count = int(batch["masked_lm_weights"][line].sum())
            assert not batch["masked_lm_positions"][line, count:].any()
    lengths = np.concatenate([b["valid_lengths"] for b in seen[: len(whole)]])
    assert len(lengths) == len(whole) * 8 > 203 - 3 * 8
    assert whole.epoch == 1


def test_batches_continue_at_a_saved_place() -> None:
    samples = synthetic_samples(50, 64, 40, 6, seed=2)
    batches, other = (Batches(samples, 8, 2, 40, seed=5) for _ in range(2))
    for _ in range(len(batches) + 1):
        next(batches)
    other.load_state_dict(batches.state_dict())
    for _ in range(len(batches)):
        one, two = next(batches), next(other)
        assert all(np.array_equal(one[key], two[key]) for key in KEYS)
    with pytest.raises(ValueError, match="seed must be that of the checkpoint, 5, got 6"):
        Batches(samples, 8, 2, 40, seed=6).load_state_dict(batches.state_dict())
    with pytest.raises(SystemExit, match="samples must fill at least one batch of .*, got 50"):
        Batches(samples, 64, 1, 40, 0)


def test_an_evaluation_has_every_sample_once() -> None:
    samples = synthetic_samples(21, 64, 40, 6, seed=2)
    found = []
    for rank in range(2):
        for batch in evaluation_batches(samples, 4, 40, rank, 2):
            found += [tuple(row[row > 0]) for row in batch["input_ids"]]
    assert sorted(found) == sorted(tuple(row) for row in samples.input_ids)


def test_prepare_writes_samples_of_all_documents(tmp_path: Path, capsys: Any) -> None:
    raw = tmp_path / "raw.txt"
    documents = ["the cat sat on a mat.\ncats sat!\nthe mat, the cat\n"] * 60
    raw.write_text("\n".join(documents))
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(VOCABULARY) + "\n")
    options = [str(raw), "--raw", "--out", str(tmp_path / "out"), "--vocab", str(vocab)]
    options += ["--max_seq_length", "16", "--eval_share", "0.3", "--whole_word_mask"]
    assert prepare.main(options) == 0
    summary = json.loads((tmp_path / "out" / "text.json").read_text())
    assert summary == json.loads(capsys.readouterr().out)
    assert summary["train"]["documents"] + summary["eval"]["documents"] == 60
    assert summary["train"]["tokens"] == summary["train"]["documents"] * 16
    for part in ("train", "eval"):
        found = read_samples(tmp_path / "out" / f"{part}.npz", len(VOCABULARY), 16)
        assert len(found) == summary[part]["samples"] > 0
    for wrong, message in (
        (["--eval_share", "0"], "--eval_share between 0 and 1, got .* and 0.0"),
        (
            ["--short_seq_prob", "2"],
            "--short_seq_prob must be 0 to 1 and --seed 0 to .*, got 2.0 and 0",
        ),
        (["--seed", "-1"], "--short_seq_prob must be 0 to 1 and --seed 0 to .*, got 0.1 and -1"),
        (["--out", str(raw)], "raw.txt is no folder: "),
    ):
        assert_raises_regex(SystemExit, message, prepare.main, [*options, *wrong])
