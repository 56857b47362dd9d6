"""Train a residual network on digits with every script, and draw the curves.

    python examples/results/digits.py

Record files, logs, checkpoints and ``image-classification.log`` go to a temporary folder; the
logs, the plot and ``digits.json`` are written beside this file. All runs begin from the same
parameters and see the same images in the same order:

- ``train_cifar10.py --data digits``: a Module, float32 and bfloat16,
- ``image_classification.py --mode hybrid``: Gluon, float32.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "image_classification"))
import mxlite as mx
from mxlite.tools.parse_log import parse
from symbols import get_symbol

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "image_classification"
EPOCHS = 20
# Last epochs before the rate decreases, counted from 0. The Module's option names the epochs after
# them.
STEPS = (9, 14)
NETWORK = {"num_classes": 10, "num_layers": 14, "image_shape": "3,28,28"}
GLUON = re.compile(r"\[Epoch (\d+)\] (training|validation): accuracy=([\d.]+)")


def save_start(folder: Path, dtype: str) -> str:
    """Save network and first parameters, the same ones for each dtype; return the prefix."""
    mx.random.seed(1)
    # Numbers layers from 0, as in a separate process.
    with mx.name.NameManager():
        symbol = get_symbol("resnet", dtype=dtype, **NETWORK)
    shapes = {"data": (1, 3, 28, 28)}
    arguments, _, states = symbol.infer_shape(**shapes)
    initializer = mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2)

    def filled(names: Any, found: Any) -> dict:
        values = {}
        for name, shape in zip(names, found):
            if name not in ("data", "softmax_label"):
                values[name] = mx.nd.zeros(shape)
                initializer(mx.init.InitDesc(name), values[name])
        return values

    prefix = f"digits_{dtype}"
    mx.model.save_checkpoint(
        str(folder / prefix),
        0,
        symbol,
        filled(symbol.list_arguments(), arguments),
        filled(symbol.list_auxiliary_states(), states),
    )
    return prefix


def run(folder: Path, script: Path, *options: Any) -> str:
    """Run a script and return its log."""
    command = [sys.executable, str(script), *map(str, options)]
    print(" ".join(command), flush=True)
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(process.stderr[-3000:])
    return process.stderr


def module_curves(log: str) -> dict:
    """Return accuracies of each epoch from the Module's log."""
    epochs = parse(log.splitlines(), ["accuracy"])
    return {kind: [epochs[e][f"{kind}-accuracy"] for e in epochs] for kind in ("train", "val")}


def gluon_curves(log: str) -> dict:
    """Return accuracies of each epoch from the Gluon script's log."""
    curves: dict = {"train": [], "val": []}
    for _, kind, accuracy in GLUON.findall(log):
        curves["train" if kind == "training" else "val"].append(float(accuracy))
    return curves


def draw(curves: dict, path: Path) -> None:
    """Draw the error of all runs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, kind in zip(axes, ("train", "val")):
        for name, curve in curves.items():
            errors = [100 * (1 - accuracy) for accuracy in curve[kind]]
            axis.plot(range(1, len(errors) + 1), errors, label=name, linewidth=1.2)
        axis.set(title=f"{kind} error", xlabel="epoch", yscale="symlog", ylim=(0, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("%")
    axes[1].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    epochs = parser.parse_args().epochs
    curves = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for dtype in ("float32", "bfloat16"):
            log = run(
                folder,
                SCRIPTS / "train_cifar10.py",
                *("--data", "digits", "--num-layers", NETWORK["num_layers"], "--dtype", dtype),
                *("--model-prefix", save_start(folder, dtype), "--load-epoch", 0),
                *("--num-epochs", epochs, "--save-period", epochs, "--disp-batches", 15),
                *("--lr-step-epochs", ",".join(str(step + 1) for step in STEPS), "--wd", 0),
            )
            curves[f"Module {dtype}"] = module_curves(log)
            (HERE / f"digits_module_{dtype}.log").write_text(log)
        log = run(
            folder,
            HERE.parent / "gluon" / "image_classification.py",
            *("--mode", "hybrid", "--dataset", "digits", "--model", "digits_float32-symbol.json"),
            *("--resume", "digits_float32-0000.params", "--epochs", epochs, "--lr", 0.05),
            *("--lr-steps", ",".join(map(str, STEPS)), "--wd", 0, "--log-interval", 15),
        )
        curves["Gluon float32"] = gluon_curves(log)
        (HERE / "digits_gluon_float32.log").write_text(log)
        shutil.rmtree(folder / "data")
    (HERE / "digits.json").write_text(json.dumps(curves, indent=1) + "\n")
    draw(curves, HERE / "digits.png")
    for title, curve in curves.items():
        print(f"{title}: validation accuracy {curve['val'][-1]:.4f}, best {max(curve['val']):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
