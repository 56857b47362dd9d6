"""The log lines of each training script that DLPerf ran, and the rate that it took from them.

A style says which lines of a log count, which number they have, which of them are kept, and how the
rate is computed from them. The windows are DLPerf's: most styles drop 20 steps and keep the next
100.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

# A number with a decimal point. Digits with other separators, as in 1,234.5 or 0,5, are not a
# number.
NUMBER = r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(?![0-9.eE]|[^\w\s][0-9])"
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d+))?")
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
_DAY_SECONDS = 86400.0


class LogError(ValueError):
    """A log without the lines that its style needs."""


@dataclasses.dataclass(frozen=True)
class Job:
    """Facts about a run from the name and the head of its log."""

    path: Path
    model: str
    batch: int
    dtype: str
    run: int
    nodes: int
    devices: int  # in each node
    head: dict[str, str] = dataclasses.field(default_factory=dict)  # lines `name = value`

    @property
    def ranks(self) -> int:
        """Number of devices of all nodes."""
        return self.nodes * self.devices

    @property
    def case(self) -> str:
        """DLPerf's name of the number of nodes and devices, such as ``1n8g``."""
        return f"{self.nodes}n{self.devices}g"


@dataclasses.dataclass(frozen=True)
class Style:
    """One script's lines.

    Attributes
    ----------
    name : str
        Name for ``extract.py --system``.
    marks : tuple of str
        Texts that a line must contain to count.
    pattern : str
        Regular expression whose first group is the number; "" if the value is a time stamp.
    example : str
        Shape of the line, for errors.
    window : tuple of (int, int or None)
        First line that is kept and the line after the last, counted from 0 among those that match.
    rate : callable
        ``rate(values, job)`` gives samples/s of the job, or milliseconds, from the kept values.
    unit : str
        ``"samples/s"`` or ``"ms"``.
    per_rank : bool
        Whether every rank writes the line: the window counts steps, and ``rate`` gets all lines.
    step : str
        Regular expression of the step's number, "" if the order of the lines is the step.
    after_step : int
        Lines of this step and earlier ones do not count.
    value : callable, optional
        ``value(line)`` reads the number if a pattern cannot.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    example: str
    window: tuple[int, int | None]
    rate: Callable[[Sequence[float], Job], float]
    unit: str = "samples/s"
    per_rank: bool = False
    step: str = ""
    after_step: int = 0
    value: Callable[[str], float | None] | None = None

    def matches(self, line: str) -> bool:
        """Return whether a line counts.

        Parameters
        ----------
        line : str
            A line of a log.

        Returns
        -------
        bool
            Every mark is in it and its step is late enough.
        """
        if not all(mark in line for mark in self.marks):
            return False
        if self.step and self.after_step:
            found = re.search(self.step, line)
            return found is not None and int(found.group(1)) > self.after_step
        return True

    def number(self, line: str) -> float | None:
        """Return the number of a line that counts, None if it has none.

        Parameters
        ----------
        line : str
            A line of a log.

        Returns
        -------
        float or None
            The value before the window is applied.
        """
        if self.value is not None:
            return self.value(line)
        found = re.search(self.pattern, line)
        return None if found is None else float(found.group(1))

    def checked_number(self, line: str, number: int, job: Job) -> float:
        """Return the number of a line that counts.

        Parameters
        ----------
        line : str
            The line.
        number : int
            Its number in the log, from 1, for the error.
        job : Job
            Metadata of the log.

        Returns
        -------
        float
            Above 0.

        Raises
        ------
        LogError
            The line has no number, or 0.
        """
        value = self.number(line)
        if value is None or not 0 < value < math.inf:
            raise LogError(
                f"{job.path}:{number}: {line.strip()[:120]!r} given, a line like "
                f"{self.example!r} with a number above 0 and a decimal point expected"
            )
        return value

    def bounds(self, warm_up: int | None, batches: int | None) -> tuple[int, int | None]:
        """Return begin and end of the window; options that are None take those of the style."""
        first, last = self.window
        return first if warm_up is None else warm_up, last if batches is None else batches

    def read(
        self,
        lines: Sequence[str],
        job: Job,
        warm_up: int | None = None,
        batches: int | None = None,
    ) -> float:
        """Return the rate of one log.

        Parameters
        ----------
        lines : sequence of str
            The log.
        job : Job
            Its metadata.
        warm_up, batches : int, optional
            Begin and end of the window in lines instead of the style's own.

        Returns
        -------
        float
            In :attr:`unit`.

        Raises
        ------
        LogError
            A line lacks its number, or there are fewer lines than the window needs.
        """
        values = [
            self.checked_number(line, number, job)
            for number, line in enumerate(lines, 1)
            if self.matches(line)
        ]
        first, last = self.bounds(warm_up, batches)
        scale = job.ranks if self.per_rank else 1
        needed = (last if last is not None else first + 1) * scale
        if len(values) < needed or not values:
            raise LogError(
                f"{job.path}: {len(values)} lines like {self.example!r} found, at least "
                f"{max(needed, 1)} expected"
            )
        kept = values[first * scale : None if last is None else last * scale]
        if not kept:
            raise LogError(
                f"{job.path}: no line is kept between {first} and {last}, expected a warm-up "
                "that is shorter than the run"
            )
        return self.rate(kept, job)


def date_seconds(line: str) -> float | None:
    """Return the seconds of a line's date and time, None if it has none."""
    found = _DATE.search(line)
    if found is None:
        return None
    try:
        date = datetime.datetime.fromisoformat(f"{found.group(1)} {found.group(2)}")
    except ValueError:  # damaged digits, such as minute 75
        return None
    fraction = float(f"0.{found.group(3)}") if found.group(3) else 0.0
    return date.replace(tzinfo=datetime.timezone.utc).timestamp() + fraction


def clock_seconds(line: str) -> float | None:
    """Return the seconds of a line's time of day, None if it has none."""
    found = _CLOCK.search(line)
    if found is None:
        return None
    hours, minutes, seconds = (int(part) for part in found.groups()[:3])
    fraction = float(f"0.{found.group(4)}") if found.group(4) else 0.0
    return hours * 3600 + minutes * 60 + seconds + fraction


def mean(values: Sequence[float], job: Job) -> float:
    """Return the mean of rates of the whole job."""
    return statistics.fmean(values)


def mean_by_nodes(values: Sequence[float], job: Job) -> float:
    """Return the mean of rates of one node, times the nodes."""
    return statistics.fmean(values) * job.nodes


def per_second(values: Sequence[float], job: Job) -> float:
    """Return samples/s of seconds per step."""
    return job.ranks * job.batch / statistics.fmean(values)


def per_millisecond(values: Sequence[float], job: Job) -> float:
    """Return samples/s of milliseconds per step."""
    return 1000 * per_second(values, job)


def of_steps(values: Sequence[float], job: Job) -> float:
    """Return samples/s of steps/s."""
    return statistics.fmean(values) * job.ranks * job.batch


def median_of_ranks(values: Sequence[float], job: Job) -> float:
    """Return samples/s of milliseconds per step that each rank has written: median over ranks."""
    steps = [values[i : i + job.ranks] for i in range(0, len(values), job.ranks)]
    rates = [statistics.median(1000 / ms * job.batch * job.ranks for ms in step) for step in steps]
    return statistics.fmean(rates)


def elapsed(values: Sequence[float], job: Job) -> float:
    """Return samples/s of two times in seconds, and the steps between them."""
    begin, end, steps = values
    seconds = end - begin
    if seconds < 0:  # a time of day passes midnight
        seconds += _DAY_SECONDS
    if seconds <= 0 or steps < 1:
        raise LogError(
            f"{job.path}: {steps} steps in {seconds} s between the time stamps, expected times "
            "that grow"
        )
    return job.ranks * job.batch * steps / seconds
