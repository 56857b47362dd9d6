"""gluon-nlp 0.10's BERT pre-training script on MXNet 1.9.1 and on mxlite, loss by loss.

    benchmarks/peers/setup                     # once: MXNet 1.9.1
    benchmarks/gluonnlp/setup                  # once: gluon-nlp for both sides
    python benchmarks/gluonnlp/losses.py --json out.json

MXNet makes the samples (texts.py) and runs one step from its own initial parameters. Both sides
then continue from that checkpoint, parameters and optimizer states, by the script's own
``--start_step``: once with ``--synthetic_data`` and once with the ``.npz`` files, and evaluate at
the end. ``mxlite`` runs the script by ``python -m mxlite.compat``. The model is small and has no
dropout (start.py), so that losses differ by rounding alone. MXNet runs without its oneDNN, whose
``log_softmax`` is off by up to 2e-6: of (0, 0) it gives -0.6931458. ``--mxnet-onednn`` turns it on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from texts import LENGTH, PREDICTIONS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KINDS = ("synthetic", "npz")
SIDES = ("mxnet", "mxlite")
LOSSES = ("mlm_loss", "nsp_loss")
_LINE = re.compile(r"\[step (\d+)\]\t(mlm_loss.*?)\tthroughput=\S+ tks/s\t(lr=\S+) ")


class Runner:
    """Starts the script on both sides, each run in a folder of its own."""

    def __init__(
        self, work: Path, packages: Path, mxnet_python: str, onednn: bool, options: list[str]
    ) -> None:
        self._work, self._packages, self._options = work, packages, options
        self._onednn = onednn
        self._starts = {"mxnet": [mxnet_python], "mxlite": [sys.executable, "-m", "mxlite.compat"]}

    def environment(self, side: str) -> dict[str, str]:
        """Return the environment of a side: its gluon-nlp, and for mxlite this checkout."""
        paths = [str(self._packages / side)]
        if side == "mxlite":
            paths.append(str(ROOT / "python"))
        onednn = str(int(self._onednn))
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "MXNET_MKLDNN_ENABLED": onednn,
        }

    def run(
        self, side: str, name: str, options: list[str], start: Path | None = None
    ) -> tuple[list[dict[str, Any]], Path]:
        """Run the script; return what start.py noted and the folder of checkpoints and log."""
        folder = self._work / f"{side}-{name}"
        shutil.copytree(start, folder) if start else folder.mkdir()
        for log in folder.glob("phase1_log.*"):
            log.unlink()
        notes = self._work / f"{side}-{name}.json"
        command = [*self._starts[side], str(HERE / "start.py"), str(notes)]
        command += [str(self._packages / "scripts" / "run_pretraining.py"), *self._options]
        command += [*options, "--ckpt_dir", str(folder)]
        _checked(command, self.environment(side), f"{side}, {name}")
        return json.loads(notes.read_text()), folder


def _checked(command: list[str], environment: dict[str, str], what: str) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"losses: {what} ended with {done.returncode}:\n{done.stderr[-4000:]}")


def relative(a: float, b: float) -> float:
    """Return the difference as a share of the larger number, 0 where both are equal.

    Parameters
    ----------
    a, b : float
        Two losses.

    Returns
    -------
    float
        From 0 to 2.
    """
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b))


def read_log(folder: Path) -> list[tuple[str, ...]]:
    """Return step, losses and accuracies, and learning rate of the log's lines, as printed.

    Parameters
    ----------
    folder : path
        Folder with the file ``phase1_log.0``.

    Returns
    -------
    list of tuple of str
        One entry for each step that was logged.
    """
    return _LINE.findall((folder / "phase1_log.0").read_text())


def parameter_difference(folders: list[Path], start: Path, step: int) -> float:
    """Return the difference of all trained parameters as a share of how far they moved.

    Single parameters are not compared: the gradient of a key's bias is rounding alone, and Adam
    divides by its size.

    Parameters
    ----------
    folders : list of path
        Folders of the checkpoints of both sides.
    start : path
        Folder of the checkpoint from which both began.
    step : int
        The last step.

    Returns
    -------
    float
        The norm of the difference divided by the norm of the change.
    """
    import mxlite as mx
    import numpy as np

    ours, theirs = (mx.nd.load(str(f / f"{step:07d}.params")) for f in folders)
    first = mx.nd.load(str(start / "0000001.params"))
    if ours.keys() != theirs.keys():
        raise SystemExit(
            f"losses: both sides must have the same parameters, got {ours.keys() ^ theirs.keys()}"
        )
    apart = moved = 0.0
    for name in first:
        a, b, c = (p[name].asnumpy().astype(np.float64) for p in (ours, theirs, first))
        apart += float(((a - b) ** 2).sum())
        moved += float(((a - c) ** 2).sum())
    return math.sqrt(apart / moved)


def compare(kind: str, runner: Runner, data: Path, start: Path, steps: int) -> dict[str, Any]:
    """Train and evaluate on both sides with one kind of data.

    Parameters
    ----------
    kind : {'synthetic', 'npz'}
        Kind of data.
    runner : Runner
        Starts the script.
    data : path
        Folder of the files that texts.py wrote.
    start : path
        Folder of the checkpoint.
    steps : int
        Number of steps after the first one.

    Returns
    -------
    dict
        Losses of both sides and their relative differences, by step.
    """
    options = ["--start_step", "1", "--num_steps", str(1 + steps)]
    options += ["--data", str(data / "train" / "part-000.npz")]
    options += ["--synthetic_data"] if kind == "synthetic" else []
    runs = [runner.run(side, kind, options, start) for side in SIDES]
    notes, folders = [r[0] for r in runs], [r[1] for r in runs]
    training = [[n for n in side if n["training"]] for side in notes]
    evaluation = [[n for n in side if not n["training"]] for side in notes]
    if any(len(side) != steps for side in training) or len(evaluation[0]) != len(evaluation[1]):
        raise SystemExit(
            f"losses: {kind}: numbers of batches must be equal, got {[len(n) for n in notes]}"
        )
    for i, pair in enumerate(zip(*notes)):
        if pair[0]["batch"] != pair[1]["batch"]:
            raise SystemExit(f"losses: {kind}: both sides must read the same samples in call {i}")
        if not all(math.isfinite(note[loss]) for note in pair for loss in LOSSES):
            raise SystemExit(f"losses: {kind}: losses of call {i} must be finite, got {pair}")

    rows = []
    for i, pair in enumerate(zip(*training)):
        row: dict[str, Any] = {"step": i + 2}
        for loss in LOSSES:
            row[loss] = {side: note[loss] for side, note in zip(SIDES, pair)}
            row[loss]["relative_difference"] = relative(*(note[loss] for note in pair))
        rows.append(row)
    logs = [read_log(folder) for folder in folders]
    return {
        "name": kind,
        "steps": rows,
        "largest_relative_difference": {
            loss: max(row[loss]["relative_difference"] for row in rows) for loss in LOSSES
        },
        "evaluation": {
            "batches": len(evaluation[0]),
            "largest_relative_difference": {
                loss: max(relative(a[loss], b[loss]) for a, b in zip(*evaluation))
                for loss in LOSSES
            },
        },
        "log_lines": {"each": len(logs[0]), "alike": sum(a == b for a, b in zip(*logs))},
        "parameters": parameter_difference(folders, start, 1 + steps),
    }


def show(result: dict[str, Any]) -> None:
    """Print the losses of one kind of data side by side.

    Parameters
    ----------
    result : dict
        As in :func:`compare`.
    """
    from common import table

    head = ["step"]
    for loss in LOSSES:
        head += [f"{loss} {side}" for side in SIDES] + ["difference"]
    rows = []
    for row in result["steps"]:
        cells = [str(row["step"])]
        for loss in LOSSES:
            values = row[loss]
            cells += [f"{values[side]:.7f}" for side in SIDES]
            cells.append(f"{values['relative_difference']:.1e}")
        rows.append(cells)
    evaluated, logs = result["evaluation"], result["log_lines"]
    print(f"{result['name']}\n{table(head, rows)}")
    print(f"largest relative differences: {result['largest_relative_difference']}")
    print(f"evaluation, {evaluated['batches']} batches: {evaluated['largest_relative_difference']}")
    print(f"log lines alike: {logs['alike']} of {logs['each']}")
    print(f"parameters: {result['parameters']:.1e} of their change\n")


def main() -> None:
    """Run both kinds of data, print the tables, write the file."""
    sys.path.insert(0, str(HERE.parent))
    from common import report, write_json

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50, help="after the first: %(default)s")
    parser.add_argument("--batch", type=int, default=8, help="samples of a step: %(default)s")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate: %(default)s")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--mxnet-onednn", action="store_true", help="MXNet's default kernels")
    parser.add_argument("--json", metavar="FILE", help="write the result here")
    parser.add_argument("--packages", type=Path, default=ROOT / ".cache" / "gluonnlp")
    parser.add_argument("--mxnet-python", default=str(ROOT / ".venv-mxnet" / "bin" / "python"))
    args = parser.parse_args()
    for path, maker in [(args.packages / "scripts", "gluonnlp"), (args.mxnet_python, "peers")]:
        if not Path(path).exists():
            raise SystemExit(f"losses: {path} does not exist: run benchmarks/{maker}/setup first")

    with tempfile.TemporaryDirectory(prefix="gluonnlp-") as folder:
        data = Path(folder) / "data"
        data.mkdir()
        options = ["--total_batch_size", str(args.batch), "--total_batch_size_eval", "8"]
        options += ["--sentencepiece", str(data / "vocabulary.model"), "--dtype", "float32"]
        options += ["--lr", str(args.lr), "--warmup_ratio", "0.1", "--log_interval", "1"]
        options += ["--max_seq_length", str(LENGTH), "--eval_use_npz"]
        options += ["--max_predictions_per_seq", str(PREDICTIONS), "--num_dataset_workers", "1"]
        options += ["--num_batch_workers", "1", "--data_eval", str(data / "dev" / "part-000.npz")]
        runner = Runner(
            Path(folder), args.packages.resolve(), args.mxnet_python, args.mxnet_onednn, options
        )
        command = [args.mxnet_python, str(HERE / "texts.py"), str(data)]
        command.append(str(args.packages / "scripts"))
        _checked(command, runner.environment("mxnet"), "texts.py")
        first = ["--num_steps", "1", "--synthetic_data", "--data", "synthetic"]
        start = runner.run("mxnet", "first", first)[1]
        results = []
        for kind in args.kinds:
            results.append(compare(kind, runner, data, start, args.steps))
            show(results[-1])
    if args.json:
        settings = {
            "steps": args.steps,
            "batch": args.batch,
            "lr": args.lr,
            "length": LENGTH,
            "mxnet_onednn": args.mxnet_onednn,
        }
        write_json(args.json, report("gluonnlp_losses", settings, results))


if __name__ == "__main__":
    main()
