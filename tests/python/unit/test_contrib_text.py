"""Vocabularies and embeddings of mx.contrib.text; expected values are those of MXNet 1.9.1."""

import hashlib
import zipfile
from collections import Counter

import mxlite as mx
import numpy as np
import pytest
from mxlite.contrib import text

WORDS = Counter(["b", "b", "c", "c", "c", "a", "z"])


def _file(folder, *lines, name="vectors.txt"):
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), encoding="utf8")
    return str(path)


def test_tokens_are_counted_between_delimiters():
    count = text.utils.count_tokens_from_str
    assert count(" Life is life \n life ! \n") == {"Life": 1, "is": 1, "life": 2, "!": 1}
    assert count("*Life*is*", r"\*", "\n", to_lower=True) == {"life": 1, "is": 1}
    counter = Counter(a=2)
    assert count("a b", counter_to_update=counter) is counter
    assert counter == {"a": 3, "b": 1}


@pytest.mark.parametrize(
    "options, tokens",
    [
        ({}, ["<unk>", "c", "b", "a", "z"]),
        ({"min_freq": 2}, ["<unk>", "c", "b"]),
        ({"most_freq_count": 3}, ["<unk>", "c", "b", "a"]),
        ({"most_freq_count": 1, "reserved_tokens": ["c", "<pad>"]}, ["<unk>", "c", "<pad>", "b"]),
        ({"unknown_token": "c", "min_freq": 2}, ["c", "b"]),
    ],
)
def test_vocabulary_numbers_tokens_by_frequency_then_order(options, tokens):
    vocab = text.vocab.Vocabulary(WORDS, **options)
    assert vocab.idx_to_token == tokens
    assert vocab.token_to_idx == {token: index for index, token in enumerate(tokens)}
    assert len(vocab) == len(tokens)
    assert vocab.reserved_tokens == options.get("reserved_tokens")


def test_vocabulary_maps_unknown_tokens_to_number_0():
    vocab = text.vocab.Vocabulary(WORDS)
    assert vocab.to_indices("q") == 0
    assert vocab.to_indices(["b", "q"]) == [2, 0]
    assert vocab.to_tokens(1) == "c"
    assert vocab.to_tokens([2, 0]) == ["b", "<unk>"]
    for index in (5, -1, 1.0):
        with pytest.raises(ValueError, match=f"indices must be integers from 0 to 4, got {index}"):
            vocab.to_tokens(index)


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"min_freq": 0}, "min_freq must be 1 or more, got 0"),
        ({"counter": {"a": 1}}, "counter must be .*got dict"),
        ({"reserved_tokens": ["x", "<unk>"]}, "contain unknown_token '<unk>'"),
        ({"reserved_tokens": ["x", "x"]}, "a token twice"),
    ],
)
def test_vocabulary_names_what_is_wrong(arguments, match):
    with pytest.raises(AssertionError, match=match):
        text.vocab.Vocabulary(**{"counter": WORDS, **arguments})


def test_embedding_reads_a_file(tmp_path):
    with pytest.raises(ValueError, match="no file .*nowhere"):
        text.embedding.CustomEmbedding(str(tmp_path / "nowhere"))
    embed = text.embedding.CustomEmbedding(_file(tmp_path, "a 1 2 3", "é 4 5 6"))
    assert (len(embed), embed.vec_len, embed.idx_to_vec.dtype) == (3, 3, np.float32)
    assert embed.token_to_idx == {"<unk>": 0, "a": 1, "é": 2}
    np.testing.assert_array_equal(embed.get_vecs_by_tokens("é").asnumpy(), [4, 5, 6])


def test_embedding_skips_a_header_and_second_vectors(tmp_path):
    path = _file(tmp_path, "2\t3", "a\t1\t2", "b\t3\t4", "a\t5\t6", name="t")
    with pytest.warns(UserWarning) as warned:
        embed = text.embedding.CustomEmbedding(path, "\t")
    texts = [str(entry.message) for entry in warned]
    assert "line 1 of" in texts[0] and "header" in texts[0]
    assert "line 4 of" in texts[1] and "second vector of 'a'" in texts[1]
    assert embed.idx_to_token == ["<unk>", "a", "b"]
    np.testing.assert_array_equal(embed.idx_to_vec.asnumpy(), [[0, 0], [1, 2], [3, 4]])


def test_vectors_of_unknown_tokens(tmp_path):
    path = _file(tmp_path, "a 1 2", "<none> 7 8")
    made = text.embedding.CustomEmbedding(path, init_unknown_vec=mx.nd.ones)
    np.testing.assert_array_equal(made.get_vecs_by_tokens(["q", "a"]).asnumpy(), [[1, 1], [1, 2]])
    read = text.embedding.CustomEmbedding(path, unknown_token="<none>")
    assert read.idx_to_token == ["<none>", "a"]
    np.testing.assert_array_equal(read.get_vecs_by_tokens("q").asnumpy(), [7, 8])


def test_tokens_are_looked_up_in_lower_case_when_asked(tmp_path):
    embed = text.embedding.CustomEmbedding(_file(tmp_path, "a 1 2", "B 3 4"))
    tokens = ["A", "B"]
    np.testing.assert_array_equal(embed.get_vecs_by_tokens(tokens).asnumpy(), [[0, 0], [3, 4]])
    found = embed.get_vecs_by_tokens(tokens, lower_case_backup=True)
    np.testing.assert_array_equal(found.asnumpy(), [[1, 2], [3, 4]])


def test_vectors_are_updated_by_token(tmp_path):
    embed = text.embedding.CustomEmbedding(_file(tmp_path, "a 1 2", "b 3 4"))
    embed.update_token_vectors(["b", "<unk>"], mx.nd.array([[5, 6], [7, 8]]))
    embed.update_token_vectors("a", mx.nd.array([9, 9]))
    np.testing.assert_array_equal(embed.idx_to_vec.asnumpy(), [[7, 8], [9, 9], [5, 6]])
    for tokens, vectors, error, match in [
        ("q", mx.nd.array([9, 9]), ValueError, "Token q is unknown"),
        (["a", "b"], mx.nd.array([9, 9]), AssertionError, r"new_vectors must have .*got \(2,\)"),
        ("a", [9, 9], AssertionError, "new_vectors must be an NDArray, got list"),
    ]:
        with pytest.raises(error, match=match):
            embed.update_token_vectors(tokens, vectors)


@pytest.mark.parametrize(
    "lines, match",
    [
        (["a 1 2", "b"], "line 2 of .*line must be a token and its vector"),
        (["a 1 2", "b 1 2 3"], "line 2 of .*'b' has 3 numbers, the previous vectors have 2"),
        (["a 1 x"], "line 1 of .*could not convert"),
        (["a 1"], "has no vectors"),
        (["<unk> 1 2 3", "a 1 2"], "the vector of '<unk>' has 3 numbers, the other vectors have 2"),
        (["<unk> 1", "a 1 2"], "the vector of '<unk>' has 1 numbers, the other vectors have 2"),
    ],
)
@pytest.mark.filterwarnings("ignore:embedding")
def test_lines_that_do_not_fit_are_named(tmp_path, lines, match):
    with pytest.raises(AssertionError, match=match):
        text.embedding.CustomEmbedding(_file(tmp_path, *lines))


def test_vocabulary_chooses_the_vectors(tmp_path):
    vocab = text.vocab.Vocabulary(WORDS, min_freq=2, reserved_tokens=["<pad>"])
    embed = text.embedding.CustomEmbedding(_file(tmp_path, "a 1 2", "b 3 4"), vocabulary=vocab)
    assert embed.idx_to_token == ["<unk>", "<pad>", "c", "b"]
    assert embed.reserved_tokens == ["<pad>"]
    rows = [[0, 0], [0, 0], [0, 0], [3, 4]]
    np.testing.assert_array_equal(embed.idx_to_vec.asnumpy(), rows)


def test_composite_embedding_puts_vectors_side_by_side(tmp_path):
    first = text.embedding.CustomEmbedding(_file(tmp_path, "c 1 2", name="first"))
    second = text.embedding.CustomEmbedding(
        _file(tmp_path, "b 3 4 5", name="second"), init_unknown_vec=mx.nd.ones
    )
    vocab = text.vocab.Vocabulary(WORDS, min_freq=2)
    both = text.embedding.CompositeEmbedding(vocab, [first, second])
    assert (both.idx_to_token, both.vec_len) == (["<unk>", "c", "b"], 5)
    rows = [[0, 0, 1, 1, 1], [1, 2, 1, 1, 1], [0, 0, 3, 4, 5]]
    np.testing.assert_array_equal(both.idx_to_vec.asnumpy(), rows)
    one = text.embedding.CompositeEmbedding(vocab, first)
    np.testing.assert_array_equal(one.idx_to_vec.asnumpy(), [[0, 0], [1, 2], [0, 0]])
    with pytest.raises(AssertionError, match="token_embeddings must be .*got str"):
        text.embedding.CompositeEmbedding(vocab, "glove")
    with pytest.raises(AssertionError, match="vocabulary must be .*got list"):
        text.embedding.CompositeEmbedding(["a"], first)


def test_published_files_have_the_names_of_mxnet():
    names = text.embedding.get_pretrained_file_names()
    assert len(names["glove"]) == 10 and "glove.6B.50d.txt" in names["glove"]
    assert text.embedding.get_pretrained_file_names("fasttext") == names["fasttext"]
    assert len(names["fasttext"]) == 327 and "wiki.simple.vec" in names["fasttext"]
    with pytest.raises(KeyError, match="Cannot find `embedding_name` word2vec"):
        text.embedding.get_pretrained_file_names("word2vec")
    with pytest.raises(KeyError, match="Cannot find pretrained file x for token embedding glove"):
        text.embedding.create("glove", pretrained_file_name="x")


@pytest.mark.parametrize(
    "name, file, archive",
    [
        ("glove", "glove.6B.50d.txt", "glove.6B.zip"),
        ("glove", "glove.840B.300d.txt", "glove.840B.300d.zip"),
        ("fasttext", "wiki.simple.vec", "wiki.simple.zip"),
    ],
)
def test_a_missing_published_file_names_the_files_that_are_read(tmp_path, name, file, archive):
    with pytest.raises(FileNotFoundError, match="does not download") as raised:
        text.embedding.create(name, pretrained_file_name=file, embedding_root=str(tmp_path))
    folder = tmp_path / name
    assert f"expected {folder / file} or {folder / archive}" in str(raised.value)


def test_published_files_are_unpacked_and_checked(tmp_path, monkeypatch):
    content = b"a 1 2\nb 3 4\n"
    digest = hashlib.sha1(content).hexdigest()
    monkeypatch.setitem(text.embedding.FastText.pretrained_file_name_sha1, "wiki.aa.vec", digest)
    folder = tmp_path / "fasttext"
    folder.mkdir()
    with zipfile.ZipFile(folder / "wiki.aa.zip", "w") as archive:
        archive.writestr("wiki.aa.vec", content)
    options = {"pretrained_file_name": "wiki.aa.vec", "embedding_root": str(tmp_path)}
    vocab = text.vocab.Vocabulary(Counter(["b"]))
    embed = text.embedding.create("FastText", vocabulary=vocab, **options)
    np.testing.assert_array_equal(embed.idx_to_vec.asnumpy(), [[0, 0], [3, 4]])
    (folder / "wiki.aa.vec").write_bytes(b"a 1 3\n")
    with pytest.warns(UserWarning, match=r"wiki.aa.vec is not the published file"):
        changed = text.embedding.create("fasttext", **options)
    np.testing.assert_array_equal(changed.idx_to_vec.asnumpy(), [[0, 0], [1, 3]])


def test_embeddings_of_other_people_are_registered(tmp_path):
    @text.embedding.register
    class Shouted(text.embedding._TokenEmbedding):
        pretrained_file_name_sha1 = {"loud.txt": hashlib.sha1(b"A 1 2\n").hexdigest()}

        def __init__(self, embedding_root, init_unknown_vec=mx.nd.zeros, **kwargs):
            self._check_pretrained_file_names("loud.txt")
            super().__init__(**kwargs)
            path = self._get_pretrained_file(embedding_root, "loud.txt")
            self._load_embedding(path, " ", init_unknown_vec)

    assert text.embedding.get_pretrained_file_names("shouted") == ["loud.txt"]
    (tmp_path / "shouted").mkdir()
    (tmp_path / "shouted" / "loud.txt").write_bytes(b"A 1 2\n")
    embed = text.embedding.create("shouted", embedding_root=str(tmp_path))
    np.testing.assert_array_equal(embed.get_vecs_by_tokens("A").asnumpy(), [1, 2])


def _wiki(folder, **texts):
    for name, content in texts.items():
        (folder / f"wiki.{name}.tokens").write_text(content, encoding="utf8")


@pytest.mark.filterwarnings("ignore:WikiText.*not the published file")
def test_wikitext_gives_sequences_and_the_tokens_that_follow(tmp_path):
    _wiki(tmp_path, train=" a b b \n\n é a \n b\n", test="b q\n a\n")
    train = mx.gluon.contrib.data.text.WikiText2(str(tmp_path), seq_len=3)
    assert train.vocabulary.idx_to_token == ["<unk>", "<eos>", "b", "a", "é"]
    assert train.frequencies["b"] == 3
    index = train.vocabulary.to_indices
    assert len(train) == 2
    data, label = train[0]
    assert data.asnumpy().tolist() == index(["a", "b", "b"])
    assert label.asnumpy().tolist() == index(["b", "b", "<eos>"])
    data, label = train[1]
    assert data.asnumpy().tolist() == index(["<eos>", "é", "a"])
    assert data.dtype == np.int32
    test = mx.gluon.contrib.data.text.WikiText2(
        str(tmp_path), "test", vocab=train.vocabulary, seq_len=2
    )
    assert test[:][0].asnumpy().tolist() == [index(["b", "<unk>"]), index(["<eos>", "a"])]
    assert test.frequencies is None


@pytest.mark.filterwarnings("ignore:WikiText.*not the published file")
def test_wikitext_is_read_from_the_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "wikitext-103-v1.zip", "w") as archive:
        archive.writestr("wikitext-103/wiki.valid.tokens", "a b\n")
    data = mx.gluon.contrib.data.text.WikiText103(str(tmp_path), "validation", seq_len=1)
    assert len(data) == 2


def test_wikitext_names_what_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"wiki.train.tokens or .*wikitext-2-v1.zip"):
        mx.gluon.contrib.data.text.WikiText2(str(tmp_path))
    with pytest.raises(
        ValueError, match="segment must be .*got 'valid'.*did you mean 'validation'"
    ):
        mx.gluon.contrib.data.text.WikiText2(str(tmp_path), "valid")
    with pytest.raises(ValueError, match="seq_len must be 1 or more, got 0"):
        mx.gluon.contrib.data.text.WikiText2(str(tmp_path), seq_len=0)
