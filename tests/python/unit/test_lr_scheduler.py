"""Learning rate schedules; the numbers are those of MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import pytest
from mxlite.base import MXNetError
from mxlite.lr_scheduler import (
    CosineScheduler,
    FactorScheduler,
    LRScheduler,
    MultiFactorScheduler,
    PolyScheduler,
    _DecayScheduler,
)


def rates(scheduler: LRScheduler, count: int) -> list[float]:
    return [round(scheduler(update), 4) for update in range(count)]


WARM = {"base_lr": 1.0, "final_lr": 0.1, "warmup_steps": 3}
POLY = [0, 0.3333, 0.6667, 1, 0.7612, 0.5592, 0.3939, 0.2653, 0.1735, 0.1184, 0.1, 0.1, 0.1, 0.1]
COSINE = [0, 0.3333, 0.6667, 1, 0.9554, 0.8306, 0.6501, 0.4499, 0.2694, 0.1446, 0.1, 0.1, 0.1, 0.1]
FLAT = {"base_lr": 0.5, "warmup_steps": 2, "warmup_begin_lr": 0.5}
CONSTANT = {"base_lr": 1, "warmup_steps": 2, "warmup_begin_lr": 0.25, "warmup_mode": "constant"}


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        # The rate changes after the step, not at it.
        (FactorScheduler(2, 0.5, base_lr=1.0), [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]),
        (FactorScheduler(1, 0.1, stop_factor_lr=0.05, base_lr=1.0), [1, 1, 0.1, 0.05, 0.05]),
        (FactorScheduler(9, **FLAT), [0.5, 0.5, 0.5]),
        (FactorScheduler(9, **CONSTANT), [0.25, 0.25, 1.0]),
        (MultiFactorScheduler([2, 4], 0.1, base_lr=1.0), [1, 1, 1, 0.1, 0.1, 0.01, 0.01]),
        (MultiFactorScheduler([1], 1.0, base_lr=1.0), [1, 1, 1]),
        (MultiFactorScheduler([1, 2], 0.5, base_lr=1.0), [1, 1, 0.5, 0.25]),
        (PolyScheduler(10, **WARM), POLY),
        (PolyScheduler(1, base_lr=1.0), [1, 0, 0]),
        (PolyScheduler(4, base_lr=1.0, pwr=1), [1.0, 0.75, 0.5, 0.25, 0.0]),
        (PolyScheduler(4, **{**WARM, "warmup_steps": 4}), [0, 0.25, 0.5, 0.75, 0.1, 0.1]),
        (CosineScheduler(10, **WARM), COSINE),
    ],
)
def test_rates_of_1_9_1(scheduler: LRScheduler, expected: list[float]) -> None:
    assert rates(scheduler, len(expected)) == expected


def test_changes_are_logged_as_by_1_x(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    MultiFactorScheduler([2, 4], 0.1, base_lr=1.0)(5)
    FactorScheduler(1, 0.1, stop_factor_lr=0.05, base_lr=1.0)(3)
    assert [record.getMessage() for record in caplog.records] == [
        "Update[5]: Change learning rate to 1.00000e-01",
        "Update[5]: Change learning rate to 1.00000e-02",
        "Update[3]: Change learning rate to 1.00000e-01",
        "Update[3]: now learning rate arrived at 5.00000e-02, will not change in the future",
    ]


def test_an_optimizer_says_that_its_rate_overwrites_the_scheduler_s(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mx.optimizer.SGD(learning_rate=1.0, lr_scheduler=FactorScheduler(2, base_lr=1.0))
    assert capsys.readouterr().out == ""
    scheduler = FactorScheduler(2, base_lr=1.0)
    with pytest.warns(UserWarning, match="rate=0.5 is used instead of base_lr=1.0 of the F"):
        optimizer = mx.optimizer.SGD(learning_rate=0.5, lr_scheduler=scheduler)
    assert scheduler.base_lr == optimizer.learning_rate == 0.5
    assert capsys.readouterr().out == (
        "learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in "
        "optimizer.\n"
    )
    poly = PolyScheduler(10, base_lr=1.0)
    with pytest.warns(UserWarning, match="rate=0.5 has no effect, because the PolySch.*1.0"):
        assert mx.optimizer.SGD(learning_rate=0.5, lr_scheduler=poly).learning_rate == 1.0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", sorted(mx.optimizer.Optimizer.opt_registry))
def test_only_an_explicit_rate_replaces_the_base_rate(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = mx.optimizer.Optimizer.opt_registry[name]
    if not kind.__module__.startswith("mxlite."):
        pytest.skip("registered by another test")
    scheduler = FactorScheduler(100, 0.5, base_lr=0.05)
    assert mx.optimizer.create(name, lr_scheduler=scheduler).learning_rate == 0.05
    assert capsys.readouterr().out == ""
    own = mx.optimizer.create(name).learning_rate
    expected = {"adamax": 0.002, "ftrl": 0.1}
    thousandth = {"adam", "adamw", "nadam", "lamb", "rmsprop"}
    assert own == expected.get(name, 0.001 if name in thousandth else 0.01)


@pytest.mark.parametrize("kind", [PolyScheduler, CosineScheduler])
def test_a_resumed_decay_is_at_its_end_beyond_the_last_update(
    kind: type[_DecayScheduler],
) -> None:
    assert kind(10, base_lr=1.0, final_lr=0.1)(11) == pytest.approx(0.1)
    assert kind(10, base_lr=1.0, final_lr=0.1, warmup_steps=12)(13) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MultiFactorScheduler(3), "step must be a list.*, got 3"),
        (lambda: LRScheduler(warmup_steps=-1), "warmup_steps must be 0 or more.*, got -1"),
        (lambda: LRScheduler(warmup_mode="cubic"), "must be 'linear' or 'constant', got 'cubic'"),
        (
            lambda: LRScheduler(warmup_steps=2.0),
            r"^LRScheduler: warmup_steps must be an.*, got 2\.0",
        ),
        (lambda: MultiFactorScheduler([0, 3]), r"step must be increasing.*, got \[0, 3\]"),
        (lambda: PolyScheduler(5, warmup_steps=10, pwr="2"), "pwr must be a number.*, got '2'"),
        (lambda: PolyScheduler(-1), "^PolyScheduler: max_update must be 1 or more.*, got -1"),
        (
            lambda: MultiFactorScheduler([1, "2"]),
            r"^MultiFactorScheduler: step\[1\] must be .*got '2'",
        ),
        (
            lambda: MultiFactorScheduler([]),
            r"^MultiFactorScheduler: step must be a list.*, got \[\]",
        ),
        (lambda: MultiFactorScheduler([2, 1]), r"^MultiFactorScheduler: step must be.*\[2, 1\]$"),
        (lambda: MultiFactorScheduler([1], 2), "^MultiFactorScheduler: factor must be at.*, got 2"),
        (lambda: FactorScheduler(0.5), "^FactorScheduler: step must be 1 or more, got 0.5$"),
        (lambda: FactorScheduler(1, 1.1), "^FactorScheduler: factor must be at most 1, got 1.1$"),
        (lambda: CosineScheduler(0), "^CosineScheduler: max_update must be 1 or more, got 0$"),
        (
            lambda: CosineScheduler(3.0),
            "^CosineScheduler: max_update must be an integer.*, got 3.0",
        ),
        (
            lambda: LRScheduler(0.1, 0, 0.2),
            "^LRScheduler: warmup_begin_lr must be at most base_lr 0",
        ),
    ],
)
def test_impossible_options_are_named(make: object, words: str) -> None:
    with pytest.raises(MXNetError, match=words) as caught:
        make()  # type: ignore[operator]
    assert isinstance(caught.value, (ValueError, TypeError))


SCHEDULES = {
    "FactorScheduler": lambda **options: FactorScheduler(5, **options),
    "MultiFactorScheduler": lambda **options: MultiFactorScheduler([5], **options),
    "PolyScheduler": lambda **options: PolyScheduler(8, **options),
    "CosineScheduler": lambda **options: CosineScheduler(8, **options),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_defaults_start_at_one_hundredth_without_a_warm_up(name: str) -> None:
    scheduler = SCHEDULES[name]()
    assert scheduler(0) == 0.01
    falls_to = {"PolyScheduler": 0.0, "CosineScheduler": 0.0}.get(name, 0.01)
    assert scheduler(8) == pytest.approx(falls_to, abs=1e-12)


def test_the_count_is_the_step_of_the_last_change() -> None:
    scheduler = MultiFactorScheduler([2, 4], 0.5, base_lr=1.0)
    counts = []
    for update in range(6):
        scheduler(update)
        counts.append(scheduler.count)
    assert counts == [0, 0, 0, 2, 2, 4]


def test_a_schedule_without_a_rule_names_its_class() -> None:
    class Unfinished(LRScheduler):
        pass

    with pytest.raises(NotImplementedError, match="^Unfinished does not define __call__"):
        Unfinished()(1)


def test_the_base_class_has_the_defaults_of_1_x() -> None:
    scheduler = LRScheduler()
    assert (scheduler.base_lr, scheduler.warmup_final_lr) == (0.01, 0.01)
    assert (scheduler.warmup_steps, scheduler.warmup_begin_lr) == (0, 0)
    assert scheduler.warmup_mode == "linear"
    assert LRScheduler(0.5, 4, 0.1).get_warmup_lr(1) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("options", "rise"),
    [
        ({}, [0.0, 0.25, 0.5, 0.75]),
        ({"warmup_begin_lr": 0.2, "warmup_mode": "linear"}, [0.2, 0.4, 0.6, 0.8]),
        ({"warmup_begin_lr": 0.2, "warmup_mode": "constant"}, [0.2] * 4),
    ],
)
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_warms_up(name: str, options: dict[str, Any], rise: list[float]) -> None:
    scheduler = SCHEDULES[name](base_lr=1.0, warmup_steps=4, **options)
    assert rates(scheduler, 5) == [*rise, 1.0]


def test_the_decay_has_the_power_and_the_end_of_1_x() -> None:
    scheduler = PolyScheduler(4, base_lr=1.0)
    assert rates(scheduler, 6) == [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]
    assert (scheduler.power, scheduler.final_lr, scheduler.max_update) == (2, 0, 4)
    cosine = CosineScheduler(4, base_lr=1.0, warmup_steps=2)
    assert rates(cosine, 6) == [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    assert (cosine.base_lr_orig, cosine.max_steps, cosine.final_lr) == (1.0, 2, 0)


def test_a_decay_without_a_shape_names_its_class() -> None:
    class Unfinished(_DecayScheduler):
        pass

    with pytest.raises(NotImplementedError, match="^Unfinished does not define _shape$"):
        Unfinished(4, 1.0, 0.0, 0, 0.0, "linear")(1)


def test_factor_counts_its_steps_and_keeps_a_rate_that_equals_the_lowest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    scheduler = FactorScheduler(3, 0.5, stop_factor_lr=0.25, base_lr=1.0)
    assert [(scheduler(update), scheduler.count) for update in (3, 4, 7, 10)] == [
        (1.0, 0), (0.5, 3), (0.25, 6), (0.25, 9),
    ]  # fmt: skip
    assert [record.getMessage()[:40] for record in caplog.records] == [
        "Update[4]: Change learning rate to 5.000",
        "Update[7]: Change learning rate to 2.500",
        "Update[10]: now learning rate arrived at",
    ]


def test_a_function_may_be_a_scheduler() -> None:
    optimizer = mx.optimizer.SGD(lr_scheduler=lambda count: 0.25)
    assert optimizer.learning_rate == 0.25
