"""Pipelines: consecutive stages of a network on the ranks along an axis of a mesh."""

from __future__ import annotations

import contextlib
import functools
import json
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple

import numpy as np

from .. import _core, autograd
from .. import ndarray as nd
from ..base import MXNetError, ShapeError, TypeError_, ValueError_
from ..comm.groups import exchange_texts, group_of
from ..gluon import Block
from ..gluon.parameter import ParameterDict
from ..gluon.trainer import Trainer
from ..ndarray import NDArray
from .boundary import DESCRIPTION_BYTES, STATUS, Boundary, Spec, spec_of, specs_back, status_of
from .failures import failure_text, send_failed
from .mesh import Mesh
from .schedules import forwards_then_backwards, one_forward_one_backward
from .stage_states import load_stage, whole_state
from .tied import TiedParameters, parameters_of

__all__ = ["Pipeline"]


class _Held(NamedTuple):
    """Values of a micro-batch that a stage keeps between forward and backward."""

    inputs: list[NDArray]
    outputs: list[NDArray]  # on the last stage, the losses of the samples


class Pipeline:
    """Runs one stage of a network on each rank along an axis of a mesh.

    All ranks make it with the same arguments; each uses its own stage only. A batch is divided into
    micro-batches, which run through the stages in the 1F1B schedule. Gradients equal those of the
    whole batch in one process, except for rounding. Batch normalization sees one micro-batch at a
    time.

    Parameters
    ----------
    stages : sequence of Block
        One stage for each rank along the axis. Its inputs are the outputs of the previous stage:
        one array or a list of them. A trained parameter that several stages share, such as a tied
        embedding, has a copy on the rank of each; the first step makes the copies equal, and
        each step sums their gradients.
    micro_batches : int
        Number of micro-batches in a batch.
    mesh : Mesh
    loss : callable
        ``loss(output, label)`` returns the loss of each sample, as the losses of Gluon do; called
        on the last stage.
    axis : str
        Axis of the mesh.
    batch_axis : int
        Axis of data and labels that is divided.

    Attributes
    ----------
    stage : Block
        The stage of this rank; initialize it, and train its parameters.
    is_first, is_last : bool
        Whether this rank reads data, and computes the loss.

    Raises
    ------
    ValueError
        If the numbers of stages and ranks differ, or ``micro_batches`` is below 1.
    """

    def __init__(
        self,
        stages: Sequence[Block],
        micro_batches: int,
        mesh: Mesh,
        loss: Callable[..., NDArray],
        axis: str = "pipe",
        batch_axis: int = 0,
    ) -> None:
        self._count = mesh.axis_size(axis)
        self._position = mesh.coordinate(axis)
        if len(stages) != self._count:
            raise ValueError_(
                f"Pipeline: the number of stages must be {self._count}, one for each rank of axis "
                f"{axis} of the mesh, got {len(stages)}"
            )
        for entry in stages:
            if not isinstance(entry, Block):
                raise TypeError_(
                    f"Pipeline: stages must be gluon.Blocks, got a {type(entry).__name__}"
                )
        if isinstance(micro_batches, bool) or not isinstance(micro_batches, int):
            raise TypeError_(f"Pipeline: micro_batches must be an integer, got {micro_batches!r}")
        if micro_batches < 1:
            raise ValueError_(f"Pipeline: micro_batches must be at least 1, got {micro_batches}")
        self._tied = TiedParameters(stages, mesh, axis)
        self.stage = stages[self._position]
        self.is_first = self._position == 0
        self.is_last = self._position == self._count - 1
        self._micro_batches = micro_batches
        self._loss = loss
        self._batch_axis = batch_axis
        self._group = group_of("Pipeline", mesh.group(axis))
        self._stages: int | None = None
        self._statuses: deque[NDArray] = deque()  # statuses of the last calls of predict
        self._before, self._after = (
            None if peer is None else Boundary(peer)
            for peer in (mesh.peer(axis, -1), mesh.peer(axis, 1))
        )

    def collect_params(self) -> ParameterDict:
        """Return the parameters of this rank's stage, shared ones included."""
        return parameters_of(self.stage)

    def state_dict(self, trainer: Trainer | None = None) -> dict[str, Any]:
        """Return the state of all stages, whole, for `mxlite.checkpoint`; all ranks call it.

        Parameters
        ----------
        trainer : gluon.Trainer, optional
            Trainer of `collect_params`, whose state is included.

        Returns
        -------
        dict
            The same on all ranks; `load_state_dict` takes it with any mesh. It is found by the
            names of the parameters, so blocks need prefixes that are the same for any mesh.
        """
        return whole_state(self._group, self.collect_params(), trainer)

    def load_state_dict(self, state: dict[str, Any], trainer: Trainer | None = None) -> None:
        """Restore a result of `state_dict`; all ranks call it.

        Parameters
        ----------
        state : dict
        trainer : gluon.Trainer, optional

        Raises
        ------
        FileFormatError
            If parameters of this stage or their optimizer states are missing.
        ShapeError
            If a shape differs.
        """
        load_stage(state, self.collect_params(), trainer)

    def step(self, data: NDArray | None = None, label: NDArray | None = None) -> NDArray | None:
        """Compute the loss of a batch and the gradients of this rank's parameters.

        All ranks along the axis call it. Gradients replace those of the previous step: the first
        step changes ``grad_req`` from ``'write'`` to ``'add'``, and each step zeroes the gradients
        first. Parameters that already had ``'add'`` accumulate over the steps.

        Parameters
        ----------
        data : NDArray
            The batch; required on the first stage, ignored on others.
        label : NDArray
            Labels of the batch; required on the last stage, ignored on others.

        Returns
        -------
        NDArray or None
            The losses of the samples on the last stage, None on others. Gradients are those of
            their sum: call ``trainer.step(batch_size)``.

        Raises
        ------
        ShapeError
            On all ranks, if a batch does not divide into the micro-batches.
        MXNetError
            On all ranks, if required data or labels are missing, or a rank is lost. If a stage
            raises, its rank raises that error; later stages raise here or where their losses are
            read; earlier stages raise where their gradients are read, or here if they have no
            gradients.
        """
        parts, labels = self._divided(data, label)
        self._prepare_parameters()
        self._tied.begin_step()
        self._begin_messages()
        try:
            losses = self._run(parts, labels)
        except Exception as error:
            self._end_messages(error, self._micro_batches, self._micro_batches)
            if not _core.engine_runs_in_caller():
                self._tied.fail(self._failure_text(error))
            raise
        self._tied.sum_gradients()
        return nd.concat(*losses, dim=0) if self.is_last else None

    def _run(self, parts: list[NDArray], labels: list[NDArray]) -> list[NDArray]:
        """Run all micro-batches; return the losses on the last stage."""
        held: dict[int, _Held] = {}
        losses: list[NDArray] = []
        unused: list[NDArray] = []
        for kind, index in self._schedule():
            if kind == "backward":
                unused += self._backward(held.pop(index))
                continue
            inputs = [parts[index]] if self._before is None else self._receive_inputs(self._before)
            held[index] = self._forward(index, inputs, labels)
            if self.is_last:
                losses.append(held[index].outputs[0].detach())
        for array in unused:  # raise if a later stage has failed
            array.wait_to_read()
        return losses

    def _begin_messages(self) -> None:
        for boundary in (self._before, self._after):
            if boundary is not None:
                boundary.specs, boundary.sent, boundary.received = None, 0, 0

    def _end_messages(self, error: Exception, forwards: int, backwards: int | None) -> None:
        """Send failed arrays in place of the missing messages of a step that has failed here.

        Otherwise neighbors would wait for this stage, or would take messages of later steps for the
        missing ones.
        """
        if _core.engine_runs_in_caller():  # a blocked neighbor could not answer
            return
        text = self._failure_text(error)
        for boundary in (self._before, self._after):
            if boundary is None:
                continue
            sends, receives = boundary.rest(boundary is self._before, forwards, backwards)
            with contextlib.suppress(MXNetError):  # if communication fails, neighbors do not wait
                self._receive(boundary, receives)
                for _ in range(sends):
                    send_failed(functools.partial(self._send, boundary), (1,), "float32", text)

    def _failure_text(self, error: Exception) -> str:
        return failure_text(self._position, self._group.ranks[self._group.index], error)

    def _schedule(self) -> Iterator[tuple[str, int]]:
        if _core.engine_runs_in_caller():  # a send blocks until the other rank receives
            return forwards_then_backwards(self._micro_batches)
        return one_forward_one_backward(self._position, self._count, self._micro_batches)

    def predict(self, data: NDArray | None = None) -> NDArray | list[NDArray] | None:
        """Return the output of the network for a batch, which is not divided.

        Parameters
        ----------
        data : NDArray
            Required on the first stage, ignored on others.

        Returns
        -------
        NDArray, list of NDArray or None
            The output on the last stage, None on others.

        Raises
        ------
        MXNetError
            If a stage raises, its rank raises that error; later stages raise here or where the
            output is read. Earlier stages run ahead, by one call for each stage after them, so
            they raise in a later call, in `step` or in ``mx.nd.waitall``.
        """
        self._begin_messages()
        try:
            outputs = self._call(self._inputs_of(data))
            if self._after is None:
                status = status_of(outputs)
            else:
                self._send_outputs(self._after, outputs)
                [status] = self._receive(self._after, [STATUS])
            if self._before is not None:
                self._send(self._before, [status])
        except Exception as error:
            self._end_messages(error, 1, None)
            raise
        if self._after is None:
            return outputs[0] if len(outputs) == 1 else outputs
        self._statuses.append(status)
        self._check_later_stages(self._count - 1 - self._position)
        return None

    def _check_later_stages(self, running: int) -> None:
        """Raise if a later stage has failed, except in the last ``running`` calls of `predict`."""
        while len(self._statuses) > running:
            self._statuses.popleft().wait_to_read()

    def _inputs_of(self, data: Any) -> list[NDArray]:
        if self._before is not None:
            return self._receive_inputs(self._before)
        if not isinstance(data, NDArray):
            raise TypeError_("Pipeline.predict: the first stage needs data, an NDArray")
        return [data]

    def _call(self, inputs: list[NDArray]) -> list[NDArray]:
        """Run the stage and return its outputs as a list."""
        output = self.stage(*inputs)
        outputs = list(output) if isinstance(output, (list, tuple)) else [output]
        for entry in outputs:
            if not isinstance(entry, NDArray):
                raise TypeError_(
                    f"Pipeline: stage {self._position} must return an NDArray or a list of them, "
                    f"got a {type(entry).__name__}"
                )
        return outputs

    def _forward(self, index: int, inputs: list[NDArray], labels: list[NDArray]) -> _Held:
        if not self.is_first:
            for x in inputs:
                if spec_of(x).has_gradient:
                    x.attach_grad()
        with autograd.record():
            outputs = self._call(inputs)
            if self.is_last:
                outputs = [self._loss(*outputs, labels[index])]
        if self._after is not None:
            self._send_outputs(self._after, [y.detach() for y in outputs])
        return _Held(inputs, outputs)

    def _backward(self, held: _Held) -> list[NDArray]:
        """Run backward; return the received arrays if no gradient is computed from them."""
        grads: list[NDArray] = []
        used = self._after is None
        if self._after is None:
            held.outputs[0].backward()
        else:
            outputs = [y for y in held.outputs if spec_of(y).has_gradient]
            grads = self._receive(self._after, specs_back([spec_of(y) for y in held.outputs]))
            pairs = [(y, grad) for y, grad in zip(outputs, grads) if _core.is_recorded(y)]
            used = bool(pairs)
            if pairs:  # empty if the stage is frozen or only passes its data on
                autograd.backward([y for y, _ in pairs], [grad for _, grad in pairs])
        if self._before is not None:
            sent = [x.grad for x in held.inputs if x.grad is not None]
            if not used or not sent:
                status = status_of(grads or held.outputs)
                sent = [g + status.reshape((1,) * g.ndim).astype(g.dtype) for g in sent] or [status]
            self._send(self._before, sent)
        return [] if used else grads

    def _prepare_parameters(self) -> None:
        """Make gradients add up over micro-batches; zero them first unless the user had ``'add'``.

        Also sets the process set of all stages, over which trainers sum the norm of gradients.
        """
        for param in self.collect_params().values():
            param._stages = self._stages
            if param.grad_req == "write":
                param.grad_req = "add"
                param._cleared_by_pipelines = True
            if param._cleared_by_pipelines and param.grad_req == "add" and param._data is not None:
                param.zero_grad()

    def _divided(self, data: Any, label: Any) -> tuple[list[NDArray], list[NDArray]]:
        """Return micro-batches of data and labels; all ranks raise if one rank cannot."""
        parts: list[NDArray] = []
        labels: list[NDArray] = []
        failure: MXNetError | None = None
        try:
            self._check_later_stages(0)
            if self.is_first:
                parts = self._split("data", data)
            if self.is_last:
                labels = self._split("label", label)
            if parts and labels:
                self._check_sizes({"data": parts[0], "label": labels[0]})
        except MXNetError as error:
            failure = error
        sizes = [x.shape[self._batch_axis] for x in (parts[:1] or labels[:1])]
        mine = {
            "failure": None if failure is None else str(failure),
            "size": sizes[0] if sizes else None,
            "micro_batches": self._micro_batches,
            "trains": any(p.grad_req != "null" for p in self.collect_params().values()),
        }
        texts = exchange_texts(self._group, json.dumps(mine), "Pipeline.step")
        if failure is not None:
            raise failure
        theirs = [json.loads(text) for text in texts]
        for rank, entry in zip(self._group.ranks, theirs):
            if entry["failure"] is not None:
                raise MXNetError(f"Pipeline.step: rank {rank} cannot begin: {entry['failure']}")
        for key, what in (("micro_batches", "micro_batches"), ("size", "samples of a micro-batch")):
            values = {
                rank: entry[key]
                for rank, entry in zip(self._group.ranks, theirs)
                if entry[key] is not None
            }
            if len(set(values.values())) > 1:
                given = ", ".join(f"{value} on rank {rank}" for rank, value in values.items())
                raise ShapeError(f"Pipeline.step: the ranks disagree about {what}: {given}")
        if self._count > 1:
            is_complete = all(entry["trains"] for entry in theirs)
            self._stages = self._group.number if is_complete else -1
        return parts, labels

    def _check_sizes(self, arrays: dict[str, NDArray]) -> None:
        sizes = {what: array.shape[self._batch_axis] for what, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise ShapeError(
                f"Pipeline.step: data and label must have the same number of samples, got {sizes}"
            )

    def _split(self, what: str, batch: Any) -> list[NDArray]:
        place = "first" if what == "data" else "last"
        if not isinstance(batch, NDArray):
            raise TypeError_(
                f"Pipeline.step: {what} must be an NDArray on the {place} stage, got "
                f"{type(batch).__name__}"
            )
        axis, count = self._batch_axis, self._micro_batches
        if not -batch.ndim <= axis < batch.ndim or batch.shape[axis] % count:
            raise ShapeError(
                f"Pipeline.step: the size of axis {axis} of {what} must be a multiple of the "
                f"{count} micro-batches, got shape {tuple(batch.shape)}"
            )
        size = batch.shape[axis] // count
        return [
            nd.slice_axis(batch, axis=axis, begin=i * size, end=(i + 1) * size)
            for i in range(count)
        ]

    def _send(self, boundary: Boundary, arrays: list[NDArray]) -> list[NDArray]:
        results = []
        for array in arrays:
            boundary.sent += 1
            results.append(
                nd.contrib.send(array, destination=boundary.peer, process_set=self._group.number)
            )
        return results

    def _receive(self, boundary: Boundary, specs: list[Spec]) -> list[NDArray]:
        arrays = []
        for spec in specs:
            boundary.received += 1
            like = nd.zeros(spec.shape, dtype=spec.dtype)
            arrays.append(
                nd.contrib.recv(like, source=boundary.peer, process_set=self._group.number)
            )
        return arrays

    def _receive_inputs(self, before: Boundary) -> list[NDArray]:
        if before.specs is None:
            before.specs = self._receive_description(before)
        return self._receive(before, before.specs)

    def _send_outputs(self, after: Boundary, outputs: list[NDArray]) -> None:
        """Send outputs; before the first micro-batch, also send their shapes and dtypes."""
        specs = [spec_of(x) for x in outputs]
        if after.specs is None:
            self._send_description(after, specs)
            after.specs = specs
        elif specs != after.specs:
            raise ShapeError(
                f"Pipeline: stage {self._position} must return the same shapes and dtypes for all "
                f"micro-batches, got {after.specs} for the first one and then {specs}"
            )
        self._send(after, outputs)

    def _send_description(self, after: Boundary, specs: list[Spec]) -> None:
        text = json.dumps(specs).encode()
        if len(text) > DESCRIPTION_BYTES:
            raise ValueError_(
                f"Pipeline: stage {self._position} returned {len(specs)} arrays, whose shapes do "
                f"not fit into {DESCRIPTION_BYTES} bytes; return fewer"
            )
        padded = np.frombuffer(text.ljust(DESCRIPTION_BYTES), dtype=np.uint8)
        self._send(after, [nd.array(padded, dtype="uint8")])

    def _receive_description(self, before: Boundary) -> list[Spec]:
        message = self._receive(before, [Spec((DESCRIPTION_BYTES,), "uint8")])[0]
        return [
            Spec(tuple(shape), dtype)
            for shape, dtype in json.loads(message.asnumpy().tobytes().decode())
        ]

    def __repr__(self) -> str:
        return (
            f"Pipeline(stage {self._position} of {self._count}, {self._micro_batches} "
            f"micro-batches)"
        )
