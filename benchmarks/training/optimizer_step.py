"""Host time of ``Trainer.step`` and operator calls per step, for the weights of known networks.

    python benchmarks/training/optimizer_step.py --json out.json

The weights have the shapes of ResNet-50 and BERT-base with sizes divided by ``--shrink``, so that
computing takes no time beside calling. The time is that until ``step`` returns; operators are
counted with the profiler. ``--clock cpu`` takes the CPU time of the calling thread, which other
work on the machine disturbs less. ``--loss-scale`` gives the trainers a dynamic loss scale, so that
a step also checks the gradients for infinities.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import add_options
from common import Timing, report, result, table, write_json

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {"momentum": 0.9, "wd": 1e-4}),
    ("nag", {"momentum": 0.9, "wd": 1e-4}),
    ("adam", {}),
    ("adamw", {"wd": 0.01}),
    ("lamb", {"wd": 0.01}),
    ("lars", {"momentum": 0.9}),
    ("rmsprop", {}),
]


def resnet_shapes(mx: Any) -> list[tuple[int, ...]]:
    """Return the shapes of ResNet-50's trained parameters."""
    from mxlite.gluon.model_zoo.vision import resnet_v1b

    net = resnet_v1b.resnet50_v1b()
    net.initialize()
    net(mx.nd.zeros((1, 3, 32, 32)))
    return [tuple(p.shape) for p in net.collect_params().values() if p.grad_req != "null"]


def bert_shapes() -> list[tuple[int, ...]]:
    """Return the shapes of BERT-base's parameters."""
    layer = [(768, 768), (768,)] * 4 + [(3072, 768), (3072,), (768, 3072), (768,)] + [(768,)] * 4
    return [(30522, 768), (512, 768), (2, 768), (768,), (768,), (768, 768), (768,)] + layer * 12


def trainer_of(
    mx: Any, shapes: list[tuple[int, ...]], dtype: str, name: str, options: dict[str, Any]
) -> tuple[Any, list[Any]]:
    """Return a trainer whose parameters have gradients, and the parameters."""
    params = mx.gluon.ParameterDict()
    for number, shape in enumerate(shapes):
        params.get(f"p{number}", shape=shape, dtype=dtype).initialize()
    half = {"multi_precision": True} if dtype == "float16" else {}
    return mx.gluon.Trainer(params, name, {**options, **half}), list(params.values())


def scale_loss(trainer: Any) -> None:
    """Give a trainer a dynamic loss scale."""
    from mxlite.contrib import amp

    amp.init("bfloat16")
    amp.init_trainer(trainer)
    amp.switch_off()


def mark_fresh(params: list[Any]) -> None:
    """Mark gradients as new, as backward does, without computing them."""
    for param in params:
        for array in param.list_data():
            array._set_fresh_grad(True)


def calls_of(mx: Any, trainer: Any) -> int:
    """Return how many operators a step runs."""
    mx.nd.waitall()
    mx._core.profiler_take()
    mx._core.profiler_start(0xFFFFFFFF, False)
    trainer.step(1)
    mx.nd.waitall()
    mx._core.profiler_stop()
    events = mx._core.profiler_take()
    return sum(
        kind == 0 and phase == ord("B")
        for kind, phase in zip(events["kind"].tolist(), events["phase"].tolist())
    )


def main() -> None:
    """Measure and print a table."""
    import mxlite as mx

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--shrink", type=int, default=32)
    parser.add_argument("--optimizers", nargs="*", default=[name for name, _ in OPTIMIZERS])
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--loss-scale", action="store_true")
    add_options(parser, "json")
    arguments = parser.parse_args()
    clock = time.perf_counter if arguments.clock == "wall" else time.thread_time
    networks = {"resnet-50": resnet_shapes(mx), "bert-base": bert_shapes()}
    results, rows = [], []
    for network, full in networks.items():
        shapes = [tuple(max(1, size // arguments.shrink) for size in shape) for shape in full]
        for dtype in ("float32", "float16"):
            for name, options in OPTIMIZERS:
                if name not in arguments.optimizers:
                    continue
                trainer, params = trainer_of(mx, shapes, dtype, name, options)
                if arguments.loss_scale:
                    scale_loss(trainer)
                seconds = []
                for _ in range(arguments.repeat + 3):
                    mark_fresh(params)
                    mx.nd.waitall()
                    begin = clock()
                    trainer.step(1)
                    seconds.append(clock() - begin)
                mark_fresh(params)
                calls = calls_of(mx, trainer)
                timing = Timing(seconds[3:])
                entry = result(
                    f"{network} {dtype} {name}", timing, unit="ms", amount=1e3,
                    operator_calls=calls, weights=len(shapes),
                )  # fmt: skip
                results.append(entry)
                rows.append(
                    [
                        network,
                        dtype,
                        name,
                        str(len(shapes)),
                        str(calls),
                        f"{timing.median * 1e3:.2f}",
                    ]
                )
    print(table(["network", "dtype", "optimizer", "weights", "calls", "ms"], rows))
    if arguments.json:
        settings = {
            key: getattr(arguments, key) for key in ("shrink", "repeat", "clock", "loss_scale")
        }
        write_json(arguments.json, report("optimizer_step", settings, results))


if __name__ == "__main__":
    main()
