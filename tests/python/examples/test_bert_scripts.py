"""examples/bert/pretrain.py and finetune.py: learning, log lines, checkpoints, several ranks."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import mxlite as mx
import numpy as np
import pytest
from processes import run_python
from test_imagenet_script import ONE_THREAD

SCRIPTS = Path(__file__).resolve().parents[3] / "examples" / "bert"
sys.path.append(str(SCRIPTS))
from pretraining_samples import synthetic_samples, write_samples

NUMBER = r"\s*(\d+\.\d+)"
LINE = re.compile(
    rf"\[step (\d+)\]\tmlm_loss={NUMBER}\tmlm_acc={NUMBER}\tnsp_loss={NUMBER}\tnsp_acc={NUMBER}\t"
    rf"throughput={NUMBER}K tks/s\tlr=(\d\.\d{{7}}) "
    r"time=\d+\.\d\d, latency=(\d+\.\d{3}) ms/step$",
    re.MULTILINE,
)
SMALL = ["--synthetic_data", "--model", "bert_1_32_2", "--max_seq_length", "24"]
SMALL += ["--total_batch_size", "16", "--warmup_ratio", "0.1", "--lr", "0.01", "--seed", "3"]


def run(folder: Path, name: str, *options: str, ranks: int = 0, status: int = 0) -> str:
    """Run a script and return what it has logged."""
    start = ["-m", "mxlite.run", "-np", ranks, sys.executable] if ranks else []
    command = [*start, SCRIPTS / name, *options]
    done = run_python(*command, cwd=folder, status=status, environment=ONE_THREAD)
    return done.stdout + done.stderr


def write_vocabulary(folder: Path, size: int, first: str = "") -> None:
    """Write the special tokens, the words of `first` and as many others as are missing."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *first.split()]
    words += [f"w{number}" for number in range(size - len(words))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


def lines(log: str) -> list[tuple[float, ...]]:
    """Return step, MLM loss and accuracy, NSP loss and accuracy, K tokens/s, rate, ms."""
    return [tuple(float(value) for value in found) for found in LINE.findall(log)]


def parameters(path: Path) -> dict[str, np.ndarray]:
    found = {name: array.asnumpy() for name, array in mx.nd.load(str(path)).items()}
    assert len(found) > 20
    return found


@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_it_learns_in_twenty_steps(tmp_path: Path, optimizer: str) -> None:
    options = ["--optimizer", optimizer, "--num_steps", "20", "--log_interval", "10"]
    options += ["--lr", {"adamw": "0.01", "lamb": "0.05"}[optimizer]]
    options += ["--data_eval", "made", "--num_buckets", "2"]
    log = run(tmp_path, "pretrain.py", *SMALL, *options)
    first, last = lines(log)
    assert [first[0], last[0]] == [10, 20]
    chance = np.log(512)
    # The small grammar uses 59 of 512 tokens, which is what a model learns first.
    assert last[1] < first[1] < chance + 0.1
    assert last[1] < chance - {"adamw": 1, "lamb": 0.3}[optimizer]
    assert first[6] > last[6] == 0
    losses = r"mlm_loss=(\d+\.\d{3})\tmlm_acc=\d+\.\d\tnsp_loss=\d+\.\d{3}\tnsp_acc=\d+\.\d"
    evaluation = re.search(rf"^Eval {losses}\t$", log, re.MULTILINE)
    assert evaluation and float(evaluation.group(1)) < last[1] + 0.5
    assert re.search(r"^Eval cost=\d+\.\ds$", log, re.MULTILINE)
    assert re.search(r"^Train cost=\d+\.\ds$", log, re.MULTILINE)
    kept = (tmp_path / "ckpt_dir" / "phase1_log.0").read_text()
    assert lines(kept) == lines(log)
    assert (tmp_path / "ckpt_dir" / "0000020.params").exists()


def test_an_ended_run_continues_bit_for_bit(tmp_path: Path) -> None:
    # Dropout, accumulation and buckets all have a place that must be restored.
    options = [*SMALL, "--num_steps", "8", "--accumulate", "2", "--num_buckets", "2"]
    options += ["--ckpt_interval", "3", "--log_interval", "1"]
    log = run(tmp_path, "pretrain.py", *options, "--ckpt_dir", "whole")
    again = tmp_path / "again" / "phase1_rank0"
    again.mkdir(parents=True)
    saved = sorted((tmp_path / "whole" / "phase1_rank0").glob("*.ckpt"))
    assert [int(path.stem[-3:]) for path in saved] == [3, 6, 8]
    (again / saved[0].name).write_bytes(saved[0].read_bytes())
    continued = run(tmp_path, "pretrain.py", *options, "--ckpt_dir", "again")
    assert "continued after step 3" in continued
    assert [line[:5] for line in lines(continued)] == [line[:5] for line in lines(log)[3:]]
    whole, other = (parameters(tmp_path / name / "0000008.params") for name in ("whole", "again"))
    for name, array in whole.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def test_the_second_phase_begins_where_the_first_has_ended(tmp_path: Path) -> None:
    options = [*SMALL, "--log_interval", "1", "--dropout", "0"]
    first = lines(run(tmp_path, "pretrain.py", *options, "--num_steps", "30"))
    longer = ["--max_seq_length", "40", "--phase2", "--phase1_num_steps", "30"]
    second = lines(run(tmp_path, "pretrain.py", *options, *longer, "--num_steps", "2"))
    assert [line[0] for line in second] == [1, 2]
    assert second[0][1] < first[0][1] - 1
    assert (tmp_path / "ckpt_dir" / "phase2_log.0").exists()
    assert (tmp_path / "ckpt_dir" / "0000032.params").exists()


def test_accumulation_sums_what_one_large_batch_has(tmp_path: Path) -> None:
    """All sequences have the same masks, so that means of halves are the mean of the whole."""
    samples = synthetic_samples(200, 100, 24, 2, seed=1)
    full = [row for row in range(200) if len(samples.masked_lm_ids[row]) == 2][:32]
    for key in vars(samples):
        values = getattr(samples, key)
        chosen = values[full] if isinstance(values, np.ndarray) else [values[i] for i in full]
        setattr(samples, key, chosen)
    write_samples(tmp_path / "data.npz", samples)
    write_vocabulary(tmp_path, 100)
    options = ["--data", "data.npz", "--vocab", "vocab.txt", "--model", "bert_1_32_2"]
    options += ["--dropout", "0", "--max_seq_length", "24", "--warmup_ratio", "0"]
    options += ["--optimizer", "lamb", "--lr", "0.1"]
    found = []
    for size, parts in (("32", "1"), ("16", "2")):
        sizes = ["--total_batch_size", size, "--accumulate", parts, "--ckpt_dir", size]
        run(tmp_path, "pretrain.py", *options, *sizes, "--num_steps", "2")
        found.append(parameters(tmp_path / size / "0000002.params"))
    for name, array in found[0].items():
        np.testing.assert_allclose(array, found[1][name], rtol=1e-3, atol=2e-4, err_msg=name)


def test_mixed_precision_learns_as_float32_does(tmp_path: Path) -> None:
    options = [*SMALL, "--num_steps", "20", "--log_interval", "20", "--ckpt_dir", ""]
    (wide,) = lines(run(tmp_path, "pretrain.py", *options))
    (narrow,) = lines(run(tmp_path, "pretrain.py", *options, "--dtype", "bfloat16"))
    assert narrow[1] == pytest.approx(wide[1], rel=0.05)
    assert narrow[1] != wide[1]


def test_the_command_line_of_dlperf_gives_the_lines_of_its_extractor(tmp_path: Path) -> None:
    """Several files with commas between, a line of every step in ms/batch."""
    for part in ("a", "b", "c"):
        write_samples(tmp_path / f"{part}.npz", synthetic_samples(8, 64, 24, 4, seed=ord(part)))
    write_vocabulary(tmp_path, 64)
    options = ["--model", "bert_1_32_2", "--dtype", "float32", "--warmup_ratio", "1"]
    options += ["--comm_backend", "horovod", "--total_batch_size", "20", "--accumulate", "1"]
    options += ["--total_batch_size_eval", "20", "--lr", "1e-4", "--max_seq_length", "24"]
    options += ["--max_predictions_per_seq", "20", "--num_steps", "3", "--log_interval", "1"]
    options += ["--ckpt_interval", "1000", "--no_compute_acc", "--vocab", "vocab.txt"]
    options += ["--latency_unit", "batch"]
    log = run(tmp_path, "pretrain.py", *options, "--data", "a.npz,[bc].npz")
    # DLPerf's extractor takes the number between these words from lines with `throughput=`.
    found = [line for line in log.splitlines() if "throughput=" in line]
    assert len(found) == 3
    assert all(re.search(r"latency=\d+\.\d+ ms/batch$", line) for line in found)
    for data in ("a.npz,none.npz", ","):
        log = run(tmp_path, "pretrain.py", *options, "--data", data, status=1)
        assert re.search(
            "no file matches --data 'none.npz'|--data must be files or patterns, got ','", log
        )


@pytest.mark.dist
@pytest.mark.parametrize(
    ("backend", "ranks"), [("horovod", 2), ("dist_sync_device", 2), ("horovod", 4)]
)
def test_several_ranks_learn_as_one_does(tmp_path: Path, backend: str, ranks: int) -> None:
    options = [*SMALL, "--num_steps", "6", "--log_interval", "6", "--dropout", "0"]
    options += ["--optimizer", "lamb", "--data_eval", "made"]
    alone = run(tmp_path, "pretrain.py", *options, "--ckpt_dir", "alone")
    options += ["--comm_backend", backend]
    log = run(tmp_path, "pretrain.py", *options, "--ckpt_dir", "many", ranks=ranks)
    (expected,) = lines(alone)
    found = [lines((tmp_path / "many" / f"phase1_log.{r}").read_text()) for r in range(ranks)]
    losses = [one[0][1] for one in found if one]
    # Ranks average the means of their own masks, so the parameters differ slightly.
    assert len(losses) == ranks, log
    assert len(set(losses)) == ranks
    assert np.mean(losses) == pytest.approx(expected[1], rel=2e-3)
    evaluations = re.findall(r"Eval mlm_loss=(\d+\.\d+)", log)
    assert len(evaluations) == ranks
    assert len(set(evaluations)) == 1  # figures are summed over the ranks
    (single,) = re.findall(r"Eval mlm_loss=(\d+\.\d+)", alone)
    assert float(evaluations[0]) == pytest.approx(float(single), rel=5e-3)
    options += ["--num_steps", "7", "--log_interval", "1", "--ckpt_dir", "many"]
    continued = run(tmp_path, "pretrain.py", *options, ranks=ranks)
    assert continued.count("continued after step 6") == ranks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--data and --vocab, or --synthetic_data, must be given"),
        (["--synthetic_data", "--accumulate", "0"], "--accumulate must be at least 1, got 0"),
        (
            ["--synthetic_data", "--model", "bert_base"],
            "--model must be bert_<layers>_<units>_<heads>",
        ),
        (["--synthetic_data", "--model", "bert_2_10_3"], "units that are a multiple of the heads"),
        (["--synthetic_data", "--phase2"], "--phase2 needs --phase1_num_steps"),
        (["--synthetic_data", "--warmup_ratio", "2"], "--warmup_ratio must be 0 to 1, got 2.0"),
        (["--synthetic_data", "--gpus", "0,1"], "--gpus must be a number, local or '', got 0,1"),
        (["--synthetic_data", "--lr", "-1"], "--lr must be 0 to inf, got -1.0"),
        (["--synthetic_data", "--clip", "nan"], "--clip must be 0 to inf, got nan"),
        (["--synthetic_data", "--seed", "-1"], "--seed must be 0 to 2147483647, got -1"),
        (["--synthetic_data", "--dropout", "1"], "--dropout must be 0 or more, below 1, got 1.0"),
        (["--synthetic_data", "--pretrained", "x"], "--pretrained x does not exist"),
        (
            ["--synthetic_data", "--phase2", "--phase1_num_steps", "9", "--model", "bert_1_32_2"],
            "--phase2 needs ckpt_dir/0000009.params, the parameters of phase 1 after",
        ),
        (
            ["--synthetic_data", "--max_seq_length", "4"],
            "a vocabulary of at least 32 and --max_seq_length of at least 8, got",
        ),
        (["--data", "none*.npz", "--vocab", "none.txt"], "none.txt cannot be read"),
    ],
)
def test_wrong_options_say_what_was_expected(
    tmp_path: Path, options: list[str], words: str
) -> None:
    assert words in run(tmp_path, "pretrain.py", *options, status=1)


WORDS = "red blue green one two three is was the ##s"


def write_texts(path: Path, count: int, seed: int) -> None:
    """Write pairs of texts; the color of the second decides."""
    random = np.random.RandomState(seed)
    rows = []
    for number in range(count):
        color, label = (("red", "warm"), ("blue", "cold"))[number % 2]
        first = random.choice(["red", "blue", "green"])
        rows.append(f"{label}\tthe {first} one\twas the {color} one\n")
    path.write_text("".join(rows))


def test_a_classifier_learns_from_pairs(tmp_path: Path) -> None:
    write_vocabulary(tmp_path, 15, WORDS)
    write_texts(tmp_path / "train.tsv", 240, 0)
    write_texts(tmp_path / "dev.tsv", 31, 1)
    dev = (tmp_path / "dev.tsv").read_bytes()  # as editors of other systems save it
    (tmp_path / "dev.tsv").write_bytes(b"\xef\xbb\xbf" + dev.replace(b"\n", b"\r\n"))
    texts = "7\tthe green one\twas the red one\n9\tthe red one\twas the blue one\n"
    (tmp_path / "test.tsv").write_text(texts)
    options = ["--train", "train.tsv", "--dev", "dev.tsv", "--vocab", "vocab.txt"]
    options += ["--model", "bert_1_32_2", "--lr", "0.005", "--epochs", "12", "--max_len", "16"]
    log = run(tmp_path, "finetune.py", *options, "--test", "test.tsv", "--save", "best.params")
    words = r"^\[Epoch 1 Batch 8/8\] loss=\d\.\d{4}, lr=0\.\d{7}, metrics:accuracy:\d\.\d{4}$"
    assert re.search(words, log, re.MULTILINE)
    assert re.search(r"^Time cost=\d+\.\d\ds, throughput=\d+\.\d\d samples/s$", log, re.MULTILINE)
    best = re.search(r"Best model at epoch (\d+). Validation metrics:accuracy:(\d\.\d+)", log)
    assert best and float(best.group(2)) > 0.9
    predictions = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert predictions == ["index\tprediction", "7\twarm", "9\tcold"]
    assert (tmp_path / "best.params").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--warmup_ratio 2", "--warmup_ratio must be 0 to 1, got 2.0"),
        ("--lr -1", "--lr must be 0 or more, got -1.0"),
        ("--seed -1", "--seed must be 0 or more, got -1"),
        ("--gpus all", "--gpus must be a number, or '' for the CPU, got all"),
        ("--save none/a.params", "the folder none of --save does not exist"),
        ("--output none/a.tsv", "the folder none of --output does not exist"),
    ],
)
def test_wrong_options_of_fine_tuning(tmp_path: Path, options: str, words: str) -> None:
    files = ["--train", "a", "--dev", "a", "--vocab", "a"]
    assert words in run(tmp_path, "finetune.py", *files, *options.split(), status=1)


def test_a_classifier_begins_with_pre_trained_parameters(tmp_path: Path) -> None:
    run(tmp_path, "pretrain.py", *SMALL, "--num_steps", "2")
    write_vocabulary(tmp_path, 15, WORDS)
    write_texts(tmp_path / "train.tsv", 8, 0)
    options = ["--train", "train.tsv", "--dev", "train.tsv", "--vocab", "vocab.txt"]
    options += ["--model", "bert_1_32_2", "--parameters", "ckpt_dir/0000002.params"]
    sizes = ["--pretrained", "ckpt_dir/0000002.params", "--model", "bert_1_16_2"]
    log = run(tmp_path, "pretrain.py", *SMALL, *sizes, "--ckpt_dir", "", status=1)
    assert "0000002.params does not fit --model bert_1_16_2, the vocabulary of 512 tokens" in log
    log = run(tmp_path, "finetune.py", *options, status=1)
    assert "does not fit --model bert_1_32_2, --vocab vocab.txt" in log  # 15 tokens, not 512
    write_vocabulary(tmp_path, 512, WORDS)
    log = run(tmp_path, "finetune.py", *options, "--epochs", "1", "--lr", "0", "--save", "a.params")
    before, after = (parameters(tmp_path / n) for n in ("ckpt_dir/0000002.params", "a.params"))
    name = "backbone.layers.0.ffn.expand.weight"
    np.testing.assert_array_equal(before[name], after[name])


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (
            "same the red one\n",
            "train.tsv:1 must have a label and one or two texts, separated by tabs, got 1",
        ),
        ("", "train.tsv must have lines with a label and a text, got an empty file"),
        (
            "warm\tred\nwarm\tblue\n",
            "at least two labels, and the other file no others, got warm, and cold in dev.tsv",
        ),
        ("a\tred\nb\tblue\n", "the other file no others, got a, b, and cold, warm in dev.tsv"),
    ],
)
def test_wrong_texts_say_what_was_expected(tmp_path: Path, train: str, words: str) -> None:
    write_vocabulary(tmp_path, 15, WORDS)
    (tmp_path / "train.tsv").write_text(train)
    write_texts(tmp_path / "dev.tsv", 4, 1)
    options = ["--train", "train.tsv", "--dev", "dev.tsv", "--vocab", "vocab.txt"]
    assert words in run(tmp_path, "finetune.py", *options, "--model", "bert_1_32_2", status=1)
