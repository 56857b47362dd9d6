"""Exchange of arrays between the devices of this process, which call a layer one after another.

A program calls a layer for one device after the other, often in one thread, so an exchange cannot
wait for the last device. It returns an array that gets its value when all devices have added their
arrays; operators that read it are queued until then.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import Any

from .. import _core, autograd
from .. import ndarray as nd
from ..base import MXNetError, NotSupportedError
from ..context import Context, cpu
from ..ndarray import NDArray
from ..ndarray.serialization import dtype_name
from .groups import Group

_rounds: weakref.WeakSet[_Round] = weakref.WeakSet()
_hook_installed = False


class DeviceExchange:
    """Exchanges arrays of one layer between the devices of this process and other ranks.

    The n-th call of each device belongs to the n-th round, in which all of them take part.
    """

    def __init__(self, who: str, devices: int, group: Group) -> None:
        self.group = group
        self.devices = devices
        self._meetings = _Meetings(who, devices, group, is_sum=False)

    @property
    def size(self) -> int:
        """Number of devices of all processes."""
        return self.group.size * self.devices

    def gather(self, own: NDArray) -> NDArray:
        """Return the arrays of all devices of all processes, joined along axis 0.

        The gradient of ``own`` is the sum of the gradients for this part on all devices. The result
        is computed when all devices have called this; the caller does not wait.
        """
        return _Gather(self._meetings)(own)


class _Meetings:
    """Exchanges that some devices have joined and others have not."""

    def __init__(self, who: str, devices: int, group: Group, is_sum: bool) -> None:
        self.who, self.devices, self.group, self.is_sum = who, devices, group, is_sum
        self._open: list[_Round] = []
        self._lock = threading.Lock()

    def join(self, part: NDArray, in_pass: int | None = None) -> tuple[_Round, int]:
        """Add a device's array; return the exchange and the device's position in it."""
        with self._lock:
            self._open = [one for one in self._open if not one.over]
            mine = [one for one in self._open if part.ctx in one.passes]
            if any(one.passes[part.ctx] != in_pass for one in mine):
                for one in mine:
                    one.give_up(part.ctx)
                self._open = [one for one in self._open if one not in mine]
            found = next((one for one in self._open if part.ctx not in one.passes), None)
            if found is None:
                found = _Round(self, part)
                self._open.append(found)
            position = found.bring(part, in_pass)
            if found.over:
                self._open.remove(found)
            return found, position


class _Round:
    """One exchange, whose result is computed from one array of every device."""

    def __init__(self, meetings: _Meetings, like: NDArray) -> None:
        self._meetings = meetings
        self.passes: dict[Context, int | None] = {}  # pass number of each device that has joined
        self._parts: list[NDArray] = []
        self._gradients: _Meetings | None = None
        group, shape = meetings.group, tuple(like.shape)
        if not meetings.is_sum:
            shape = (meetings.devices * shape[0], *shape[1:])
        self._awaited = _core.AwaitedArray(shape, dtype_name(like.dtype), meetings.who)
        # Submits the collective when the first device joins, so that all ranks submit theirs in the
        # order in which the program calls layers.
        self.result: NDArray = self._awaited.array
        if group.size > 1:
            call = nd.contrib.reduce_scatter if meetings.is_sum else nd.contrib.all_gather
            self.result = call(self.result, axis=0, process_set=group.number)
        _rounds.add(self)
        _install_hook()

    @property
    def over(self) -> bool:
        """Whether all devices have joined, or the round has failed."""
        return bool(self._awaited.over)

    @property
    def gradients(self) -> _Meetings:
        """Exchanges of the gradients of the result."""
        if self._gradients is None:
            old = self._meetings
            who = f"{old.who}, backward"
            self._gradients = _Meetings(who, old.devices, old.group, is_sum=True)
        return self._gradients

    def bring(self, part: NDArray, in_pass: int | None) -> int:
        """Add the array of a device; return the device's position."""
        self.passes[part.ctx] = in_pass
        self._parts.append(part.as_in_context(cpu()))
        count = self._meetings.devices
        if len(self._parts) == count:
            parts, self._parts = self._parts, []
            try:
                whole = nd.add_n(*parts) if self._meetings.is_sum else nd.concat(*parts, dim=0)
                self._awaited.give(whole)
            except MXNetError as error:
                self._awaited.fail(str(error))
                raise
        else:
            here = ", ".join(str(device) for device in self.passes)
            self._awaited.expect(
                f"{len(self._parts)} of {count} devices of this process have called it ({here}); "
                "all of them must run it equally often, each within MXLITE_COMM_TIMEOUT after the "
                "first, before the program waits for a result"
            )
        return len(self.passes) - 1

    def give_up(self, device: Context) -> None:
        """Fail, because a device has begun another pass before all devices have joined."""
        here = ", ".join(str(one) for one in self.passes)
        self._awaited.fail(
            f"{device} has begun another pass (autograd.record) while {len(self.passes)} of "
            f"{self._meetings.devices} devices had run the previous pass ({here}); run all devices "
            "in each pass"
        )

    def end(self) -> None:
        """Fail if devices are missing, because the program ends."""
        if not self.over:
            self._awaited.fail("the program ends before all devices have called it")


class _Gather(autograd.Function):
    """Gathers along axis 0; differentiable."""

    def __init__(self, meetings: _Meetings) -> None:
        super().__init__()
        self._meetings = meetings
        self._joined: tuple[_Round, int] | None = None

    def forward(self, *inputs: NDArray) -> NDArray:
        own = inputs[0]
        self._joined = self._meetings.join(own, autograd._pass_number())
        return self._joined[0].result.as_in_context(own.ctx)

    def backward(self, *output_grads: NDArray) -> NDArray:
        grad = output_grads[0]
        if autograd.is_recording():
            raise NotSupportedError(
                f"{self._meetings.who}: gradients of gradients are not supported over several "
                "devices of a process; use one device per process"
            )
        assert self._joined is not None
        forward, _ = self._joined
        summed, _ = forward.gradients.join(grad)
        position = self._joined[1]
        own: Any = nd.slice_axis(summed.result, axis=0, begin=position, end=position + 1)
        return own.as_in_context(grad.ctx)


def _install_hook() -> None:
    """Fail open rounds at exit, before exit handlers wait for all work."""
    global _hook_installed
    if not _hook_installed:
        _hook_installed = True
        atexit.register(_end)


def _end() -> None:
    for one in list(_rounds):
        one.end()
