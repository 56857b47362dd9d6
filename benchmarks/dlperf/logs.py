"""Logs of turns with the lines of the scripts that DLPerf ran, which its extractors read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dlperf.models import MODELS, SHORT, Case, numbers

_INTERVAL = 20  # batches between two lines of MXNet's Speedometer in ArcFace's script


def _resnet50(case: Case, times: Sequence[float]) -> list[str]:
    return [
        f"Epoch[0] Batch[{number}]\tSpeed: {case.samples / seconds:.6f} samples/sec"
        for number, seconds in enumerate(times)
    ]


def _bert(case: Case, times: Sequence[float]) -> list[str]:
    return [
        f"[step {number}]\tthroughput={case.samples * case.size / seconds / 1000:.1f}K tks/s\t"
        f"time={seconds:.2f}, latency={1000 * seconds:.3f} ms/batch"
        for number, seconds in enumerate(times, 1)
        for _ in range(case.ranks)  # a line of every rank
    ]


def _wide_deep(case: Case, times: Sequence[float]) -> list[str]:
    return [
        f"[rank:0] iter: {number}/{len(times)}, latency(ms): {1000 * seconds:.6f} | "
        for number, seconds in enumerate(times, 1)
    ]


def _insightface(case: Case, times: Sequence[float]) -> list[str]:
    """Return the lines of partial FC's script, or of ArcFace's for the modes without sampling."""
    if case.mode.startswith("partial"):
        return [
            f"rank-id:0:-Iter:{number} Rank:{case.batch / seconds:.2f} it/sec "
            f"Total:{case.samples / seconds:.2f} it/sec"
            for number, seconds in enumerate(times, 1)
        ]
    lines = []
    for end in range(_INTERVAL, len(times) + 1, _INTERVAL):
        rate = _INTERVAL * case.samples / sum(times[end - _INTERVAL : end])
        lines.append(f"INFO:root:Iter[0] Batch [{end}]\tSpeed: {rate:.2f} samples/sec")
    return lines


def _gpt(case: Case, times: Sequence[float]) -> list[str]:
    return [
        f" iteration {number:8d}/{len(times):8d} | consumed samples: {number * case.samples:12d} |"
        f" elapsed time per iteration (ms): {1000 * seconds:.3f} |"
        f" global batch size: {case.samples:5d} |"
        for number, seconds in enumerate(times, 1)
    ]


_LINES: dict[str, Callable[[Case, Sequence[float]], list[str]]] = {
    "resnet50": _resnet50,
    "bert": _bert,
    "wide_deep": _wide_deep,
    "insightface": _insightface,
    "gpt": _gpt,
}


def _wide_deep_head(case: Case) -> dict[str, int]:
    dim, layers = numbers(case.network)
    return {
        "batch_size": case.samples,
        "deep_vocab_size": case.size,
        "deep_embedding_vec_size": dim,
        "hidden_units_num": layers,
    }


def write_log(folder: Path, case: Case, system: str, run: int, answer: dict[str, Any]) -> Path:
    """Write the log of a turn with the lines of the model's script in DLPerf.

    Parameters
    ----------
    folder : Path
        Root of the logs.
    case : Case
        What ran.
    system : str
        Name and variant.
    run : int
        Number of the turn, from 1.
    answer : dict
        ``warm`` and ``steps``: the seconds of each step.

    Returns
    -------
    Path
        ``<data>/<system>/<model>[/<network>][/<mode>]/bz<B>/1n<G>g/<short>_b<B>_<dtype>_<run>.log``.
    """
    short = MODELS[case.model].log_name or case.network.split("_")[0]
    target = folder / case.data / system.replace(":", "-") / case.model
    for part in (case.network, case.mode, f"bz{case.batch}", f"1n{case.ranks}g"):
        target /= part
    target /= f"{short}_b{case.batch}_{SHORT[case.dtype]}_{run}.log"
    target.parent.mkdir(parents=True, exist_ok=True)
    head = {
        "num_nodes": 1,
        "gpu_num_per_node": case.ranks,
        "batch_size_per_device": case.batch,
        "size": case.size,
    }
    if case.model == "wide_deep":
        head.update(_wide_deep_head(case))
    lines = [f"{name} = {value}" for name, value in head.items()]
    lines += _LINES[case.model](case, [*answer["warm"], *answer["steps"]])
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target
