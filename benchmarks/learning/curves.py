"""ResNet-50 v1.5 learns real pictures on MXNet 1.9.1 and on mxlite: curves of several seeds.

    benchmarks/peers/setup                     # once: MXNet 1.9.1
    python benchmarks/learning/curves.py --json out.json --plot out.png

Both sides run examples/gluon/train_imagenet.py (start.py) with ``--use-rec`` on the letters of
letters.py, from parameters that mxlite has drawn for each seed, with the same schedule. They run at
the same time with half of the cores each, so their seconds are no measurement of speed. First comes
a plain run of a few steps on the same batches: losses differ by rounding errors, which grow. Two
runs of mxlite whose parameters differ in their last bits show how fast they grow. The runs of the
seeds shuffle and augment the pictures with the random numbers of each side; at an epoch the curves
are alike if their means differ by no more than the larger spread (largest less smallest) of a
side's seeds.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from command_line import add_options  # noqa: E402
from common import commit, report, table, usable_cores, write_json  # noqa: E402

SIDES = ("mxnet", "mxlite")
CURVES = ("loss", "top1")
_TRAINED = re.compile(r"^\[Epoch (\d+)\] training: accuracy=(\d\.\d+)$", re.MULTILINE)
_VALIDATED = re.compile(r"^\[Epoch (\d+)\] validation: err-top1=(\d\.\d+) err-top5=", re.MULTILINE)


def epochs_of(log: str, losses: list[float], epochs: int) -> list[dict[str, float]]:
    """Return loss and accuracies of each epoch.

    Parameters
    ----------
    log : str
        What train_imagenet.py has printed.
    losses : list of float
        One for each step; all epochs have the same number of steps.
    epochs : int
        Expected number of epochs.

    Returns
    -------
    list of dict
        ``loss``, the mean of the epoch's steps, ``accuracy`` of the training batches, and ``top1``
        of the validation pictures.

    Raises
    ------
    SystemExit
        If the log has other epochs, or a loss is not finite.
    """
    trained, validated = _TRAINED.findall(log), _VALIDATED.findall(log)
    for found in (trained, validated):
        if [int(number) for number, _ in found] != list(range(epochs)):
            raise SystemExit(
                f"curves: the log must have {epochs} epochs, it ends with\n{log[-2000:]}"
            )
    if not losses or len(losses) % epochs or not all(map(math.isfinite, losses)):
        raise SystemExit(
            f"curves: {epochs} epochs must have equally many finite losses, got {len(losses)}, the "
            f"last {losses[-3:]}"
        )
    steps = len(losses) // epochs
    return [
        {
            "loss": statistics.fmean(losses[number * steps : (number + 1) * steps]),
            "accuracy": float(trained[number][1]),
            "top1": 1 - float(validated[number][1]),
        }
        for number in range(epochs)
    ]


def compare(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare the curves of both sides.

    Parameters
    ----------
    runs : list of dict
        ``side`` and ``epochs`` of each run, as :func:`epochs_of` gives them.

    Returns
    -------
    dict
        By curve and epoch: mean and spread of each side, the difference of the means, and whether
        it is within the larger spread; the final top-1 with the standard error of its difference.
    """
    sides = {side: [run["epochs"] for run in runs if run["side"] == side] for side in SIDES}
    curves: dict[str, list[dict[str, Any]]] = {}
    for curve in CURVES:
        curves[curve] = []
        for number in range(len(runs[0]["epochs"])):
            point: dict[str, Any] = {"epoch": number}
            for side, found in sides.items():
                values = [epochs[number][curve] for epochs in found]
                point[side] = {
                    "mean": statistics.fmean(values),
                    "spread": max(values) - min(values),
                }
            point["difference"] = point["mxlite"]["mean"] - point["mxnet"]["mean"]
            spread = max(point[side]["spread"] for side in SIDES)
            point["within"] = abs(point["difference"]) <= spread
            curves[curve].append(point)
    final = {side: [epochs[-1]["top1"] for epochs in found] for side, found in sides.items()}
    error = math.sqrt(sum(statistics.variance(values) / len(values) for values in final.values()))
    return {
        **curves,
        "within": {curve: sum(point["within"] for point in curves[curve]) for curve in CURVES},
        "final_top1": final,
        "final_difference": curves["top1"][-1]["difference"],
        "standard_error": error,
    }


class Runner:
    """Starts the example on both sides.

    Parameters
    ----------
    folder : path
        Folder of the records and of the results of runs. A run with the same options and commit is
        not repeated.
    args : argparse.Namespace
        The command line.
    """

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.folder, self._args = folder, args
        self._python = {"mxnet": os.path.abspath(args.mxnet_python), "mxlite": sys.executable}

    def prepare(self) -> None:
        """Write the record files and the parameters of each seed."""
        args, counts = self._args, [str(self._args.pictures), str(self._args.val_pictures)]
        made = self.folder / f"made-{'-'.join(counts)}"
        if not made.exists():
            command = [sys.executable, str(HERE / "letters.py"), str(self.folder), *counts]
            self._checked(command, "letters.py")
            made.touch()
        import mxlite as mx

        for seed in range(args.seeds):
            mx.random.seed(seed)
            net = mx.gluon.model_zoo.vision.resnet50_v1b(classes=10, last_gamma=True)
            net.initialize(mx.init.MSRAPrelu())
            net.save_parameters(str(self.folder / f"start-{seed}.params"))
        start = mx.nd.load(str(self.folder / "start-0.params"))
        changed = {name: mx.nd.array(next_number(a.asnumpy())) for name, a in start.items()}
        mx.nd.save(str(self.folder / "changed.params"), changed)

    def _checked(self, command: list[str], what: str) -> str:
        environment = dict(os.environ, OMP_NUM_THREADS=str(max(1, usable_cores() // len(SIDES))))
        if command[0] != sys.executable:
            environment.pop("PYTHONPATH", None)  # MXNet has other packages
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            message = f"curves: {what} ended with {done.returncode}:\n{done.stderr[-4000:]}"
            raise SystemExit(message)
        return done.stderr

    def run(self, side: str, kind: str, seed: int, more: list[str]) -> dict[str, Any]:
        """Return what a run noted: losses, sums of batches, log, seconds, name of the runtime.

        Parameters
        ----------
        side : {'mxnet', 'mxlite'}
        kind : {'plain', 'augmented', 'changed'}
            ``changed`` is plain, from parameters of which each is the next number.
        seed : int
            Seed of the initial parameters and of random choices in the batches.
        more : list of str
            Further options of the example.
        """
        args, folder = self._args, self.folder
        options = ["--use-rec", "--rec-train", str(folder / "train.rec")]
        options += ["--model", "resnet50_v1b", "--mode", "hybrid", "--last-gamma"]
        options += ["--num-classes", "10", "--num-training-samples", str(args.pictures)]
        options += ["--input-size", str(args.size), "--batch-size", str(args.batch), "-j", "2"]
        start = "changed" if kind == "changed" else f"start-{seed}"
        options += ["--resume-params", str(folder / f"{start}.params"), "--seed", str(seed)]
        options += ["--save-frequency", "0", "--save-dir", "", "--logging-file", "", *more]
        out = folder / f"{side}-{kind}-{seed}.json"
        if out.exists():
            notes: dict[str, Any] = json.loads(out.read_text())
            if (notes.get("options"), notes.get("commit")) == (options, commit()):
                return notes
        reading = "augmented" if kind == "augmented" else "plain"
        command = [self._python[side], str(HERE / "start.py"), str(out), side, reading, *options]
        begin = time.perf_counter()
        log = self._checked(command, f"{side}, {kind}, seed {seed}")
        notes = json.loads(out.read_text())
        notes.update(log=log, seconds=time.perf_counter() - begin, options=options)
        notes["commit"] = commit()
        out.write_text(json.dumps(notes))
        print(f"{side}, {kind}, seed {seed}: {notes['seconds']:.0f} s", flush=True)
        return notes

    def run_both(self, kind: str, seed: int, more: list[str]) -> list[dict[str, Any]]:
        """Return what both sides noted, which run at the same time; see :meth:`run`."""
        with concurrent.futures.ThreadPoolExecutor(len(SIDES)) as pool:
            started = [pool.submit(self.run, side, kind, seed, more) for side in SIDES]
            return [future.result() for future in started]


def next_number(values: Any) -> Any:
    """Return the next larger float32 of each number; zeros stay.

    Parameters
    ----------
    values : numpy.ndarray
        Array of dtype float32.

    Returns
    -------
    numpy.ndarray
        Array of the same shape.
    """
    import numpy as np

    return np.where(values == 0, values, np.nextafter(values, np.float32(np.inf)))


def same_batches(runner: Runner, steps: int) -> dict[str, Any]:
    """Return the losses of both sides on the same batches, and their relative differences.

    A second run of mxlite, whose initial parameters differ in their last bits, shows how fast
    rounding errors grow.

    Parameters
    ----------
    runner : Runner
        Starts the example.
    steps : int
        Number of steps.

    Returns
    -------
    dict
        One entry of the result file.
    """
    more = ["--rec-val", "", "--num-epochs", "1", "--max-batches", str(steps), "--lr", "0.01"]
    notes = runner.run_both("plain", 0, more)
    changed = runner.run("mxlite", "changed", 0, more)
    if any(len(side["losses"]) != steps for side in (*notes, changed)):
        raise SystemExit(
            f"curves: each side must have {steps} losses, got {[n['losses'] for n in notes]}"
        )
    pictures = max(differences(*([s for s, _ in n["batches"][:steps]] for n in notes)))
    labels = [[label for _, label in n["batches"][:steps]] for n in notes]
    if labels[0] != labels[1]:
        raise SystemExit(f"curves: the sides read other labels: {labels}")
    return {
        "name": "same batches",
        "losses": {side: n["losses"] for side, n in zip(SIDES, notes)},
        "relative_differences": differences(*(n["losses"] for n in notes)),
        "changed": changed["losses"],
        "relative_differences_of_changed": differences(notes[1]["losses"], changed["losses"]),
        "relative_difference_of_pictures": pictures,
    }


def differences(ours: list[float], theirs: list[float]) -> list[float]:
    """Return the differences of two lists as shares of the larger number.

    Parameters
    ----------
    ours, theirs : list of float
        Lists of the same length.

    Returns
    -------
    list of float
        0 where both are equal.
    """
    pairs = zip(ours, theirs)
    return [0.0 if a == b else abs(a - b) / max(abs(a), abs(b)) for a, b in pairs]


def train_all(runner: Runner, args: argparse.Namespace) -> dict[str, Any]:
    """Train all seeds on both sides.

    Parameters
    ----------
    runner : Runner
        Starts the example.
    args : argparse.Namespace
        The command line.

    Returns
    -------
    dict
        One entry of the result file.
    """
    more = ["--rec-val", str(runner.folder / "val.rec"), "--num-epochs", str(args.epochs)]
    more += ["--lr", str(args.lr), "--lr-mode", "cosine", "--warmup-epochs", "1"]
    runs = []
    for seed in range(args.seeds):
        for side, notes in zip(SIDES, runner.run_both("augmented", seed, more)):
            runs.append(
                {
                    "side": side,
                    "runtime": notes["runtime"],
                    "seed": seed,
                    "epochs": epochs_of(notes["log"], notes["losses"], args.epochs),
                    "losses": [round(loss, 5) for loss in notes["losses"]],
                    "seconds": round(notes["seconds"], 1),
                }
            )
    return {"name": "curves", "runs": runs, **compare(runs)}


def show(plain: dict[str, Any], found: dict[str, Any]) -> None:
    """Print the tables.

    Parameters
    ----------
    plain : dict
        As in :func:`same_batches`.
    found : dict
        As in :func:`train_all`.
    """
    for what, key in (("MXNet and mxlite", ""), ("mxlite and mxlite, last bits", "_of_changed")):
        apart = " ".join(f"{value:.0e}" for value in plain[f"relative_differences{key}"])
        print(f"same batches, relative differences of the losses, {what}: {apart}")
    print()
    head = ["epoch"]
    for curve in CURVES:
        head += [f"{curve} {side}" for side in SIDES] + ["difference", "within"]
    rows = []
    for points in zip(*(found[curve] for curve in CURVES)):
        cells = [str(points[0]["epoch"])]
        for point in points:
            cells += [f"{point[s]['mean']:.4f} ({point[s]['spread']:.4f})" for s in SIDES]
            cells += [f"{point['difference']:+.4f}", "yes" if point["within"] else "no"]
        rows.append(cells)
    print(table(head, rows))
    print("means of the seeds, in parentheses the largest less the smallest\n")
    for side in SIDES:
        print(f"final top-1, {side}: {', '.join(f'{v:.4f}' for v in found['final_top1'][side])}")
    print(
        f"difference of the means {found['final_difference']:+.4f}, "
        f"its standard error {found['standard_error']:.4f}"
    )


def plot(found: dict[str, Any], path: str) -> None:
    """Draw loss and top-1 of every run.

    Parameters
    ----------
    found : dict
        As in :func:`train_all`.
    path : str
        The PNG file.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    colors = dict(zip(SIDES, ("tab:orange", "tab:blue")))
    for axis, curve in zip(axes, CURVES):
        for run in found["runs"]:
            values = [epoch[curve] for epoch in run["epochs"]]
            label = run["runtime"] if run["seed"] == 0 else None
            x = range(1, len(values) + 1)
            axis.plot(x, values, color=colors[run["side"]], alpha=0.8, label=label)
        axis.set(title=curve, xlabel="epoch")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> None:
    """Run everything, print the tables, write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each side: %(default)s")
    parser.add_argument("--epochs", type=int, default=8, help="of each run: %(default)s")
    parser.add_argument("--pictures", type=int, default=1920, help="of an epoch: %(default)s")
    parser.add_argument("--val-pictures", type=int, default=400, help="default: %(default)s")
    parser.add_argument("--size", type=int, default=48, help="pixels of a side: %(default)s")
    parser.add_argument("--batch", type=int, default=16, help="pictures of a step: %(default)s")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate: %(default)s")
    parser.add_argument("--plain-steps", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="keep records and runs, to continue")
    parser.add_argument("--plot", help="write the curves to this file")
    add_options(parser, "json", "mxnet-python")
    args = parser.parse_args()
    if args.pictures % args.batch or args.batch < 1:
        parser.error(f"argument --pictures: {args.pictures} is no multiple of --batch {args.batch}")
    if args.seeds < 2:
        parser.error(f"argument --seeds must be at least 2 for a spread, got {args.seeds}")
    if not Path(args.mxnet_python).exists():
        raise SystemExit(
            f"curves: {args.mxnet_python} does not exist: run benchmarks/peers/setup first"
        )
    with tempfile.TemporaryDirectory(prefix="learning-") as temporary:
        folder = (args.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        runner = Runner(folder, args)
        runner.prepare()
        plain = same_batches(runner, args.plain_steps)
        found = train_all(runner, args)
    show(plain, found)
    if args.json:
        names = ("seeds", "epochs", "pictures", "val_pictures", "size", "batch", "lr")
        settings = {name: getattr(args, name) for name in names}
        write_json(args.json, report("learning_curves", settings, [plain, found]))
    if args.plot:
        plot(found, args.plot)


if __name__ == "__main__":
    main()
