"""Environment of a test: contexts, environment variables, repetitions, suppressed output."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable

from ..context import Context, current_context, num_gpus

__all__ = [
    "DummyIter",
    "default_context",
    "discard_stderr",
    "environment",
    "has_tvm_ops",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "list_gpus",
    "retry",
    "set_default_context",
]


def default_context() -> Context:
    """Return the context on which tests run: the current one."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make a context current in this thread until the surrounding ``with`` block ends."""
    Context.default_ctx = ctx


def list_gpus() -> range:
    """Return the ids of the usable GPUs."""
    return range(num_gpus())


def has_tvm_ops() -> bool:
    """Return False, because there are no operators made with TVM."""
    return False


def is_op_runnable() -> bool:
    """Return whether all operators run on the default context."""
    return True


def is_cd_run() -> bool:
    """Return whether this is a release job (``CD_JOB`` is 1)."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """Return whether the machine is a 64-bit ARM."""
    return platform.machine() == "aarch64"


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Set environment variables inside a ``with`` block.

    Takes a name and a value, or one dictionary of them (else ValueError); None removes a variable.
    """
    if len(args) == 1 and isinstance(args[0], Mapping):
        wanted = dict(args[0])
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise ValueError("environment: the arguments must be a name and a value, or one dictionary")
    before = {name: os.environ.get(name) for name in wanted}
    try:
        _set(wanted)
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Discard output to stderr inside a ``with`` block, including that of C++ code."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that repeats a test with random numbers until it passes.

    An AssertionError of the last of ``n`` attempts passes.
    """
    if n < 1:
        raise ValueError(f"retry: n must be 1 or more, got {n}")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def repeated(*args: Any, **kwargs: Any) -> Any:
            for _ in range(n - 1):
                try:
                    return test(*args, **kwargs)
                except AssertionError as error:
                    print(f"repeated after: {error}")
            return test(*args, **kwargs)

        return repeated

    return decorate


class DummyIter:
    """Endlessly repeats the first batch of another iterator, to measure training alone.

    Parameters
    ----------
    real_iter : DataIter
        Has provide_data, provide_label and batch_size.
    """

    def __init__(self, real_iter: Any) -> None:
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def __iter__(self) -> DummyIter:
        return self

    def next(self) -> Any:
        """Return the batch."""
        return self.the_batch

    def __next__(self) -> Any:
        return self.next()

    def reset(self) -> None:
        """Do nothing, because every batch is the first one."""
