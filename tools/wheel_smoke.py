"""Tests an installed wheel in an environment with NumPy. Argument: tests/data/gradient.jpg."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

BUNDLED = ("mxlite", "dnnl", "gomp", "opencv", "jpeg", "png")


def check(condition: bool, what: str) -> None:
    """End the program with a message unless ``condition`` is true."""
    if not condition:
        sys.exit(f"wheel smoke test: {what}")


def main() -> None:
    """Import, train, score, run the console command, decode a JPEG, check loaded libraries."""
    begin = time.perf_counter()
    import mxlite as mx

    print(f"NumPy {np.__version__}")
    print(f"import mxlite: {time.perf_counter() - begin:.3f} s (NumPy imported before)")
    package = Path(mx.__file__).parent
    check(Path(sys.prefix) in package.parents, f"imported from {package}, not from {sys.prefix}")

    total = (mx.nd.ones((2, 3)) + mx.nd.array([1, 2, 3])).asnumpy()
    check(np.array_equal(total, np.array([[2, 3, 4]] * 2)), f"1 + [1 2 3] gave {total}")

    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, activation="relu"), mx.gluon.nn.Dense(2))
    net.initialize()
    data = mx.nd.array(np.random.default_rng(0).random((2, 3, 8, 8)), dtype="float32")
    eager = net(data).asnumpy()
    net.hybridize()
    hybrid = net(data).asnumpy()
    check(eager.shape == (2, 2) and np.allclose(eager, hybrid, atol=1e-5), f"{eager} and {hybrid}")

    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_function = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(20):
        with mx.autograd.record():
            loss = loss_function(net(data), mx.nd.array([0, 1]))
        loss.backward()
        trainer.step(2)
        losses.append(float(loss.mean().asscalar()))
    check(losses[-1] < losses[0] / 2, f"the loss of a training did not fall: {losses}")

    for words in (["info"], ["score", "mobilenet0.25", "--size", "32", "--passes", "2"]):
        command = [str(Path(sys.executable).with_name("mxlite")), *words]
        done = subprocess.run(command, capture_output=True, text=True)
        check(done.returncode == 0, f"{words}: {done.stderr}")

    pixels = mx.image.imdecode(Path(sys.argv[1]).read_bytes()).asnumpy()
    corners = pixels[[0, 0, -1, -1], [0, -1, 0, -1], :2].astype(int)
    expected = np.array([[0, 0], [255, 0], [0, 255], [255, 255]])
    check(pixels.shape == (32, 48, 3), f"decoded shape {pixels.shape}")
    check(bool(np.all(abs(corners - expected) < 25)), f"decoded corners {corners.tolist()}")

    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    ours = [p for p in loaded if any(name in os.path.basename(p) for name in BUNDLED)]
    foreign = [p for p in ours if not p.startswith(str(package.parent))]
    check(not foreign, f"libraries of the machine were loaded: {foreign}")
    check(len(ours) >= len(BUNDLED), f"expected all of {BUNDLED} in the wheel, loaded {ours}")
    print(f"{len(ours)} bundled libraries, op, hybridized network and JPEG decode work")


if __name__ == "__main__":
    main()
