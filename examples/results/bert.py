"""Pre-train a small BERT on text, fine-tune it on a task made of the text, and draw the curves.

    python examples/results/bert.py FILES --work DIR

FILES are text and HTML files. DIR keeps samples and checkpoints, so that the same command continues
a run that was ended. Writes ``bert.json``, ``bert.png`` and ``bert.log`` beside this file.

The task: from which folder of FILES is a sentence? A pre-trained and a random model learn from the
same few sentences.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "bert"))
import numpy as np
from text_documents import is_held_out, paragraphs, sentences

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "bert"

MODEL, LENGTH, STEPS = "bert_2_128_2", 128, 1000
VOCABULARY, HELD_OUT = 8192, 0.05
# Numbers of sentences of a class for training and for the comparison, and limits of their words.
FEW, MANY, WORDS = 40, 100, (8, 40)
LINE = re.compile(
    r"\[step (\d+)\]\tmlm_loss=\s*([\d.]+)\tmlm_acc=\s*([\d.]+)\tnsp_loss=\s*([\d.]+)\t"
    r"nsp_acc=\s*([\d.]+)"
)
EVALUATION = re.compile(
    r"Eval mlm_loss=([\d.]+)\tmlm_acc=([\d.]+)\tnsp_loss=([\d.]+)\tnsp_acc=([\d.]+)"
)
NAMES = ("mlm_loss", "mlm_acc", "nsp_loss", "nsp_acc")


def run(script: str, *options: object) -> str:
    """Run a script and return what it has logged."""
    command = [sys.executable, str(SCRIPTS / script), *map(str, options)]
    print(" ".join(command)[:300], flush=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-3000:])
    return done.stdout + done.stderr


def curves(log: str) -> dict:
    """Return the lines of a log by step; lines that a continued run repeats count once."""
    training: dict[int, tuple[str, ...]] = {}
    evaluation: dict[int, tuple[str, ...]] = {}
    for line in log.splitlines():
        if found := LINE.match(line):
            training[int(found.group(1))] = found.groups()[1:]
        elif found := EVALUATION.match(line):
            evaluation[max(training)] = found.groups()
    return {
        kind: [
            {"step": step, **dict(zip(NAMES, map(float, values)))}
            for step, values in sorted(rows.items())
        ]
        for kind, rows in (("training", training), ("evaluation", evaluation))
    }


def write_task(files: list[Path], folder: Path) -> dict:
    """Write sentences with the name of their folder; return the number of each class."""
    parts: dict[str, dict[str, list[str]]] = {part: defaultdict(list) for part in ("train", "dev")}
    for path in files:
        part = "dev" if is_held_out(path.name, 0.3) else "train"
        for paragraph in paragraphs(path):
            for sentence in sentences(paragraph):
                if WORDS[0] <= len(sentence.split()) <= WORDS[1] and "\t" not in sentence:
                    parts[part][path.parent.name].append(sentence)
    classes = [
        name
        for name in sorted(parts["train"])
        if len(parts["train"][name]) >= FEW and len(parts["dev"].get(name, [])) >= MANY
    ]
    random = np.random.RandomState(0)
    for part, count in (("train", FEW), ("dev", MANY)):
        rows = []
        for name in classes:
            found = parts[part][name]
            rows += [f"{name}\t{found[i]}\n" for i in random.permutation(len(found))[:count]]
        (folder / f"{part}.tsv").write_text("".join(rows), encoding="utf-8")
    return {"classes": classes, "training_sentences": FEW, "compared_sentences": MANY}


def draw(report: dict, path: Path) -> None:
    """Draw losses and accuracies."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6))
    for axis, kind, label in ((axes[0], "loss", "loss"), (axes[1], "acc", "accuracy, %")):
        for name in ("mlm", "nsp"):
            for part, style in (("training", "-"), ("evaluation", "o")):
                points = [(row["step"], row[f"{name}_{kind}"]) for row in report[part]]
                axis.plot(*zip(*points), style, label=f"{name} {part}", linewidth=1.2)
        axis.set(xlabel="step", ylabel=label, ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[1].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for samples, checkpoints")
    opt = parser.parse_args()
    data, checkpoints = opt.work / "data", opt.work / "run"
    if not (data / "text.json").exists():
        run(
            *("prepare.py", *opt.files, "--out", data, "--vocab_size", VOCABULARY),
            *("--whole_word_mask", "--max_seq_length", LENGTH, "--eval_share", HELD_OUT),
        )
    run(
        *("pretrain.py", "--data", data / "train.npz", "--data_eval", data / "eval.npz"),
        *("--vocab", data / "vocab.txt", "--ckpt_dir", checkpoints, "--model", MODEL),
        *("--max_seq_length", LENGTH, "--total_batch_size", 32, "--total_batch_size_eval", 64),
        *("--num_steps", STEPS, "--log_interval", 25, "--eval_interval", 250),
        *("--ckpt_interval", 250, "--optimizer", "adamw", "--lr", 0.002),
        *("--warmup_ratio", 0.05, "--dropout", 0, "--num_buckets", 2),
    )
    log = (checkpoints / "phase1_log.0").read_text()
    report = {"text": json.loads((data / "text.json").read_text()), "model": MODEL, **curves(log)}
    task = write_task(sorted(opt.files), opt.work)
    options = ["--train", opt.work / "train.tsv", "--dev", opt.work / "dev.tsv", "--max_len", 64]
    options += ["--vocab", data / "vocab.txt", "--model", MODEL, "--lr", 0.0005, "--epochs", 12]
    for name, more in (
        ("pre-trained", ["--parameters", checkpoints / f"{STEPS:07d}.params"]),
        ("random", []),
    ):
        found = run("finetune.py", *options, *more)
        log += f"fine-tuning, {name}\n{found}"
        accuracies = re.findall(r"^validation metrics:accuracy:([\d.]+)", found, re.MULTILINE)
        task[name] = [float(accuracy) for accuracy in accuracies]
    report["fine_tuning"] = task
    (HERE / "bert.json").write_text(json.dumps(report, indent=1) + "\n")
    (HERE / "bert.log").write_text(log)
    draw(report, HERE / "bert.png")
    print(json.dumps({"evaluation": report["evaluation"], "fine_tuning": task}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
