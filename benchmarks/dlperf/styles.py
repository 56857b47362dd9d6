"""DLPerf's systems: one style of log lines for each training script."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence

from dlperf.log_styles import (
    NUMBER,
    Job,
    LogError,
    Style,
    clock_seconds,
    date_seconds,
    elapsed,
    mean,
    mean_by_nodes,
    median_of_ranks,
    of_steps,
    per_millisecond,
    per_second,
)

_SPEED = rf"Speed: {NUMBER} samples/sec"
_ITERATION = r"Iteration: (\d+) "


class TwoSteps(Style):
    """A style whose rate is the time between the lines of two steps, by their numbers."""

    def read(
        self,
        lines: Sequence[str],
        job: Job,
        warm_up: int | None = None,
        batches: int | None = None,
    ) -> float:
        """Return the rate between the steps of the window; see :meth:`Style.read`."""
        times: dict[int, float] = {}
        for line in lines:
            found = re.search(self.pattern, line) if self.matches(line) else None
            if found is not None:
                times.setdefault(int(found.group(1)), float(found.group(2)))
        first, end = self.bounds(warm_up, batches)
        last = end or 0
        if self.after_step < 0 and times:  # the window counts from the first step in the log
            first, last = first + min(times), last + min(times)
        for step in (first, last):
            if step not in times:
                raise LogError(
                    f"{job.path}: no line of step {step} among {len(times)} lines, one like "
                    f"{self.example!r} expected"
                )
        return self.rate([times[first], times[last], float(last - first)], job)


def _between(values: Sequence[float], job: Job) -> float:
    return 1000 * job.ranks * job.batch / _milliseconds_between(values, job)


def _milliseconds_between(values: Sequence[float], job: Job) -> float:
    begin, end, steps = values
    if end <= begin:
        raise LogError(f"{job.path}: time goes from {begin} to {end}, expected it to grow")
    if steps < 1:
        raise LogError(f"{job.path}: {steps:.0f} steps are kept, expected at least 1")
    return 1000 * (end - begin) / steps


class StampedSteps(Style):
    """A style of numbered steps whose lines carry the time: lost lines do not change the rate.

    A step ends with the line of its last rank. The window counts steps from the first in the log.
    """

    def read(
        self,
        lines: Sequence[str],
        job: Job,
        warm_up: int | None = None,
        batches: int | None = None,
    ) -> float:
        """Return the rate between the first and the last step of the window.

        See :meth:`Style.read`.
        """
        times: dict[int, float] = {}
        ranks: dict[int, int] = {}
        for number, line in enumerate(lines, 1):
            found = re.search(self.step, line) if self.matches(line) else None
            if found is None:
                continue
            value = self.number(line)
            if value is None:
                raise LogError(
                    f"{job.path}:{number}: {line.strip()[:120]!r} given, a line like "
                    f"{self.example!r} expected"
                )
            step = int(found.group(1))
            ranks[step] = ranks.get(step, 0) + 1
            if ranks[step] <= (job.ranks if self.per_rank else 1):
                times[step] = value
        first, end = self.bounds(warm_up, batches)
        last = end or 0
        base = min(times, default=0)
        kept = sorted(step for step in times if base + first <= step < base + last)
        if not times or max(times) < base + last - 1 or len(kept) < 2:
            raise LogError(
                f"{job.path}: {len(times)} steps with lines like {self.example!r} found, at "
                f"least {last} expected, of which the first {first} are left out"
            )
        return self.rate([times[kept[0]], times[kept[-1]], float(kept[-1] - kept[0])], job)


class MindSpore(Style):
    """Lines of the step and of its time follow each other; every rank writes both."""

    def matches(self, line: str) -> bool:
        """Return whether a line counts."""
        return "epoch time:" in line or re.search(r"\bepoch: *\d+,? +step:", line) is not None

    def read(
        self,
        lines: Sequence[str],
        job: Job,
        warm_up: int | None = None,
        batches: int | None = None,
    ) -> float:
        """Return the rate of the steps in the window; see :meth:`Style.read`."""
        first, end = self.bounds(warm_up, batches)
        last = end or 0
        # The lines of ranks mix, but each rank writes a step's number before its time.
        steps: list[int] = []
        times: list[float] = []
        for position, line in enumerate(lines, 1):
            number = re.search(r"step:\s*(\d+)", line)
            if "epoch time:" in line:
                times.append(self.checked_number(line, position, job))
            elif number is not None and self.matches(line):
                steps.append(int(number.group(1)))
        kept = [time for step, time in zip(steps, times) if first < step <= last]
        needed = (last - first) * job.ranks
        if len(kept) < needed:
            raise LogError(
                f"{job.path}: {len(kept)} lines like {self.example!r} of steps {first + 1} to "
                f"{last} found, at least {needed} expected"
            )
        return self.rate(kept, job)


class OuterDropped(Style):
    """A style that leaves out the first and the last line."""

    def read(
        self,
        lines: Sequence[str],
        job: Job,
        warm_up: int | None = None,
        batches: int | None = None,
    ) -> float:
        """Return the rate of all lines but two; see :meth:`Style.read`."""
        count = sum(self.matches(line) for line in lines)
        if count < 3:
            raise LogError(
                f"{job.path}: {count} lines like {self.example!r} found, at least 3 expected: "
                "the first and the last are left out"
            )
        return super().read(
            lines,
            job,
            1 if warm_up is None else warm_up,
            count - 1 if batches is None else batches,
        )


class HugeCTR(Style):
    """Seconds of a print interval, which the line itself says."""

    def number(self, line: str) -> float | None:
        """Return milliseconds of a step."""
        found = re.search(rf"Time\((\d+) iters\): {NUMBER}s", line)
        return None if found is None else 1000 * float(found.group(2)) / int(found.group(1))


class NumberedSteps(Style):
    """A style whose window counts steps by their numbers, whatever the interval of the lines."""

    def read(
        self,
        lines: Sequence[str],
        job: Job,
        warm_up: int | None = None,
        batches: int | None = None,
    ) -> float:
        """Return the rate of the steps in the window; see :meth:`Style.read`."""
        first, end = self.bounds(warm_up, batches)
        last = math.inf if end is None else end
        found = [(re.search(self.step, line), line) for line in lines]
        kept = [line for step, line in found if step and first < int(step.group(1)) <= last]
        return super().read(kept, job, 0)


_SECONDS = r" (\d{9,}(?:\.\d+)?)\s*$"  # epoch seconds at the end of a line

_ALL: list[Style] = [
    Style(
        "mxnet-resnet50",
        ("Epoch[0] Batch[",),
        _SPEED,
        "Epoch[0] Batch[n] ... Speed: x samples/sec",
        (20, 120),
        mean,
    ),
    Style(
        "mxnet-bert",
        ("throughput=",),
        rf"latency={NUMBER} ms/(?:batch|step)",
        "[step n] ... throughput=xK tks/s ... latency=x ms/batch",
        (100, 200),
        median_of_ranks,
        per_rank=True,
    ),
    Style(
        "mxnet-arcface",
        ("INFO:root:", "[0] Batch", "Speed: "),
        rf"INFO:root:(?:Epoch|Iter)\[0\] Batch.*{_SPEED}",
        "INFO:root:Iter[0] Batch [n] Speed: x samples/sec",
        (1, 6),
        mean_by_nodes,
    ),
    Style(
        "mxnet-partial-fc",
        ("Rank:", "Total:"),
        rf"Total:{NUMBER} it/sec",
        "Iter:n Rank:x it/sec Total:x it/sec",
        (19, None),
        mean,
    ),
    StampedSteps(
        "ngc-mxnet-resnet50",
        (" Epoch[0] Batch ",),
        "",
        "YYYY-MM-DD hh:mm:ss,mmm ... Epoch[0] Batch [n]",
        (19, 120),
        elapsed,
        per_rank=True,
        step=r"Batch \[(\d+)",
        value=date_seconds,
    ),
    StampedSteps(
        "pytorch-nvidia-resnet50",
        ("Iteration: ", " train.loss :"),
        "",
        "YYYY-MM-DD hh:mm:ss.ffffff - Iteration: n  train.loss : x",
        (19, 120),
        elapsed,
        step=_ITERATION,
        after_step=5,
        value=date_seconds,
    ),
    StampedSteps(
        "pytorch-nvidia-bert",
        ("Training Iteration: ", " average_loss"),
        "",
        "YYYY-MM-DD hh:mm:ss.ffffff - Training Iteration: n  average_loss : x",
        (19, 110),
        elapsed,
        step=_ITERATION,
        after_step=5,
        value=date_seconds,
    ),
    Style(
        "pytorch-examples-resnet50",
        ("Epoch: [",),
        r"(\d+\.\d{3}) ",
        "Epoch: [e][n/N] Time d.ddd ( d.ddd) ...",
        (20, 120),
        per_second,
        step=r"Epoch: \[\d+\]\[\s*(\d+)/",
        after_step=5,
    ),
    Style(
        "tf1-resnet50",
        (" imgs_per_sec ",),
        rf" imgs_per_sec :?\s*{NUMBER}",
        "... imgs_per_sec : x ...",
        (20, 120),
        mean,
    ),
    Style(
        "tf1-bert",
        ("Iteration: ", "throughput_train"),
        rf"throughput_train : {NUMBER} seq/s",
        "Iteration: n0 throughput_train : x seq/s",
        (1, 11),
        mean,
    ),
    Style(
        "tf2-resnet50",
        ("TimeHistory",),
        rf", {NUMBER} examples/second ",
        "TimeHistory: x seconds, x examples/second between steps n and m",
        (1, 6),
        mean,
    ),
    StampedSteps(
        "tf2-bert",
        ("Train Step:",),
        "",
        "hh:mm:ss.ffffff ... Train Step: n/N",
        (19, 120),
        elapsed,
        step=r"Train Step: (\d+)/",
        value=clock_seconds,
    ),
    Style(
        "paddle-resnet50",
        ("elapse ",),
        rf"elapse {NUMBER} sec",
        "... elapse x sec",
        (20, 120),
        per_second,
    ),
    Style(
        "paddle-bert",
        (" speed: ", " steps/s"),
        rf" speed: {NUMBER} steps/s",
        "... speed: x steps/s",
        (20, 120),
        of_steps,
    ),
    MindSpore(
        "mindspore",
        ("epoch time:",),
        rf"epoch time:\s*{NUMBER}",
        "epoch: e step: n, ... followed by epoch time: x",
        (20, 120),
        per_millisecond,
    ),
    TwoSteps(
        "oneflow-resnet50",
        ("train: epoch ", "samples/s:"),
        rf"iter (\d+),.*samples/s: [0-9.]+{_SECONDS}",
        "train: epoch e, iter n, loss: x, top_1: x, top_k: x, samples/s: x <epoch seconds>",
        (20, 120),
        _between,
    ),
    TwoSteps(
        "oneflow-bert",
        ("step: ", "mlm_loss:", "throughput:"),
        rf"step: (\d+),.*throughput: [0-9.]+{_SECONDS}",
        "step: n, total_loss: x, mlm_loss: x, nsp_loss: x, throughput: x <epoch seconds>",
        (19, 119),
        _between,
    ),
    Style(
        "oneflow-faces",
        ("train: iter ", "throughput:"),
        rf"throughput: {NUMBER}",
        "train: iter n, loss x, throughput: x",
        (20, 120),
        mean,
        step=r"iter (\d+)",
        after_step=5,
    ),
    TwoSteps(
        "oneflow-wide-deep-2020",
        (" time ", " loss "),
        r"(\d+) time (\d{9,}(?:\.\d+)?) loss ",
        "n time <epoch seconds> loss x",
        (0, 1000),
        _milliseconds_between,
        unit="ms",
        after_step=-1,
    ),
    OuterDropped(
        "oneflow-wide-deep-2021",
        ("[rank:0] iter:", "latency(ms):"),
        rf"latency\(ms\): {NUMBER}\s*\|",
        "[rank:0] iter: n/N, loss: x, latency(ms): x | stamp",
        (1, None),
        mean,
        unit="ms",
    ),
    HugeCTR(
        "hugectr-wide-deep",
        ("Iter: ", " iters): "),
        "",
        "[INFO][RANK0]: Iter: n Time(100 iters): xs Loss: x lr:x",
        (0, None),
        mean,
        unit="ms",
        step=r"Iter: (\d+)",
        after_step=100,
    ),
    NumberedSteps(
        "megatron-gpt",
        ("iteration", "elapsed time per iteration (ms):"),
        rf"elapsed time per iteration \(ms\): {NUMBER}\s*\|",
        "iteration n/ N | ... | elapsed time per iteration (ms): x | ...",
        (99, None),
        lambda values, job: statistics.median(values),
        unit="ms",
        step=r"iteration\s+(\d+)/",
    ),
    NumberedSteps(
        "oneflow-gpt",
        ("step=", "micro_batches=", "latency="),
        rf"latency={NUMBER},",
        "step=n,micro_batches=m,samples=s,throughput=x,latency=x,loss=x",
        (99, None),
        lambda values, job: 1000 * statistics.median(values),
        unit="ms",
        step=r"step=(\d+)",
    ),
]
STYLES: dict[str, Style] = {style.name: style for style in _ALL}


def recognize(lines: Sequence[str]) -> list[str]:
    """Return the names of the styles that at least one line belongs to.

    Parameters
    ----------
    lines : sequence of str
        A log.

    Returns
    -------
    list of str
        Names of :data:`STYLES`.
    """
    return [
        name
        for name, style in STYLES.items()
        if any(style.matches(line) and _complete(style, line) for line in lines)
    ]


def _complete(style: Style, line: str) -> bool:
    if isinstance(style, TwoSteps):
        return re.search(style.pattern, line) is not None
    if isinstance(style, MindSpore):
        return "epoch time:" in line
    return style.number(line) is not None
