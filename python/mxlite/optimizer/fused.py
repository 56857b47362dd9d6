"""Optimizers whose update is one operator, which can update many weights per call."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import _core
from .. import ndarray as nd
from ..base import ValueError_
from ..ndarray import NDArray
from ..ndarray.sparse.updates import has_rows_form
from .half import is_half
from .optimizer import Optimizer

__all__ = ["FusedOptimizer", "Weights"]

# Maximum number of weights that an operator updates in place per call (cpp/ops/optimizer/multi.h).
_MOST_WEIGHTS = 64


class Weights(NamedTuple):
    """Arguments of one fused update: lists of equal length.

    Attributes
    ----------
    indices : list of int or str
    weights, grads : list of NDArray
    states : list
        States without float32 copies.
    masters : list of NDArray or None
        Float32 copies of half-precision weights.
    lrs, wds : list of float
        Learning rates and weight decays, with the factors of each weight.
    counts : list of int
        Number of updates of each weight, including this one.
    scale : NDArray or None
        One number, a further factor on all gradients; the update is skipped if it is 0 or not
        finite.
    """

    indices: Sequence[Any]
    weights: Sequence[NDArray]
    grads: Sequence[NDArray]
    states: Sequence[Any]
    masters: Sequence[NDArray | None]
    lrs: list[float]
    wds: list[float]
    counts: list[int]
    scale: NDArray | None = None

    def only(self, *chosen: int) -> Weights:
        """Return the entries at the given positions."""
        lists: list[Any] = [[every[i] for i in chosen] for every in self[:-1]]
        return Weights._make([*lists, self.scale])


class _Form(NamedTuple):
    """An update operator: its parameter names, and whether it updates many weights."""

    call: Callable[..., Any]
    names: dict[str, str]  # maps a hyper-parameter to the operator's parameter
    # Parameter with the number of weights; empty if the operator updates one weight.
    count_name: str
    scale_is_input: bool  # whether rescale_grad is an input array

    @property
    def many(self) -> bool:
        return bool(self.count_name)


@cache
def _forms() -> dict[tuple[str, bool, bool], _Form]:
    """Return the update operators by (family, takes many weights, mixed precision).

    The family is named after its operator for one weight.
    """
    forms = {}
    for op in _core.list_ops():
        family = op["update_family"]
        if family is not None:
            names = {param["name"]: param["name"] for param in op["params"]}
            is_input = "rescale_grad" not in names
            form = _Form(
                _core.op(op["name"]), {**names, **family["listed"]}, family["count"], is_input
            )
            forms[family["name"], form.many, family["mixed"]] = form
    return forms


def _form(name: str, many: bool, mixed: bool) -> _Form | None:
    return _forms().get((name, many, mixed))


class _Call(NamedTuple):
    """An operator call for some of the weights; only its hyper-parameters change between steps."""

    form: _Form
    data: list[NDArray]
    weights: list[NDArray]
    chosen: list[int]  # positions in the batch
    together: slice | None  # the same positions as a slice if they are consecutive

    def numbers(self, values: list[Any]) -> list[Any]:
        """Return the values for the weights of this call from a list for the whole batch."""
        return values[self.together] if self.together else [values[i] for i in self.chosen]


class _Plan(NamedTuple):
    """The operator calls that update a batch, and the arrays for which they were made."""

    arrays: tuple[Sequence[Any], ...]  # weights, gradients, states, float32 copies
    options: tuple[Any, ...]
    calls: list[_Call]

    def fits(self, batch: Weights, options: tuple[Any, ...]) -> bool:
        """Return whether a batch has the same arrays and options."""
        if options != self.options:
            return False
        lists = (batch.weights, batch.grads, batch.states, batch.masters)
        return all(
            len(old) == len(new) and all(map(operator.is_, old, new))
            for old, new in zip(self.arrays, lists)
        )


class FusedOptimizer(Optimizer):
    """Base of optimizers whose update is one operator per weight.

    A subclass names the operator and its hyper-parameters; weights of one dtype are then updated
    together, at most ``aggregate_num`` in one call. A subclass that overrides ``update`` or
    ``update_multi_precision`` gets one weight at a time.

    ``aggregate_num`` is 64, or the variable ``MXNET_OPTIMIZER_AGGREGATION_SIZE`` when the optimizer
    is made; 1 updates each weight by a call of its own. Results do not depend on it.
    """

    aggregate_num = _MOST_WEIGHTS
    _transient = (*Optimizer._transient, "_plans")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._plans: dict[str, _Plan] = {}  # plan of the last batch, by context
        wanted = os.environ.get("MXNET_OPTIMIZER_AGGREGATION_SIZE")
        if wanted is not None:
            self.aggregate_num = _aggregation_size(wanted)

    # -- defined by subclasses -------------------------------------------------------------------

    _operator_name: ClassVar[str] = ""
    # Number of arrays, initially zero, that the operator keeps per weight.
    _state_count: ClassVar[int] = 0
    # Attributes that are parameters of the operator, equal for all weights and updates.
    _option_names: ClassVar[tuple[str, ...]] = ()
    # Name of the operator parameter for `clip_gradient`.
    _clip_name: ClassVar[str] = "clip_gradient"
    # Whether the operator gets lr * wd instead of wd as the weight decay.
    _decoupled: ClassVar[bool] = False
    # Whether norms are summed over shards, and whether servers may run the updates. Read from the
    # class itself, because a subclass may compute other updates than its base.
    _sums_shards: ClassVar[bool] = False
    _on_servers: ClassVar[bool] = False

    def _operator(self, state: Any) -> tuple[str, Sequence[NDArray]]:
        """Return the operator for a weight with this state, and the arrays of the state.

        The result may depend only on the state and on options that never change.
        """
        return self._operator_name, state

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._option_names}

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the arrays that the operator keeps for a weight, all zero."""
        return tuple(nd.zeros_like(weight) for _ in range(self._state_count)) or None

    def _all_options(self) -> dict[str, Any]:
        """Return `_options` and the parameters that all update operators have."""
        options: dict[str, Any] = {"rescale_grad": self.rescale_grad}
        if self.clip_gradient:
            options[self._clip_name] = self.clip_gradient
        return {**options, **self._options()}

    def _hyper(self, batch: Weights) -> dict[str, Any]:
        """Return the hyper-parameters of an update: one value, or a list with one per weight.

        Operators get those that are among their parameters.
        """
        decays = batch.wds
        if self._decoupled:
            decays = [lr * wd for lr, wd in zip(batch.lrs, batch.wds)]
        return {"lr": batch.lrs, "wd": decays, "t": batch.counts, **self._all_options()}

    def _for_servers(self, state: Any) -> dict[str, Any]:
        """Return the operator and parameters with which servers run the updates."""
        name, _ = self._operator(state)
        form = _form(name, False, False)
        assert form is not None, name
        options = self._all_options()
        lazy = bool(options.pop("lazy_update", True))
        del options["rescale_grad"]
        return {
            "operator": name,
            "params": {key: options[key] for key in sorted(options) if key in form.names},
            "decoupled": self._decoupled,
            "rows": lazy and has_rows_form(name),
        }

    # -- updates ---------------------------------------------------------------------------------

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Change a weight in place, or a list of weights."""
        if isinstance(index, (list, tuple)):
            self._update_by_context(index, weight, grad, state, [None] * len(index))
        else:
            self._apply([index], [weight], [grad], [state], [None])

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Change a weight in place, and its float32 copy; or lists of weights."""
        if type(self).update is not FusedOptimizer.update:
            super().update_multi_precision(index, weight, grad, state)
            return
        several = isinstance(index, (list, tuple))
        if not several:
            index, weight, grad, state = [index], [weight], [grad], [state]
        states, masters = self._without_masters(weight, state)
        if several:
            self._update_by_context(index, weight, grad, states, masters)
        else:
            self._apply(index, weight, grad, states, masters)

    def _takes_lists(self) -> bool:
        """Return whether lists of weights are updated together."""
        own, base = type(self), FusedOptimizer
        return (
            self.aggregate_num > 1
            and own.update is base.update
            and own.update_multi_precision is base.update_multi_precision
        )

    def _takes_shards(self) -> bool:
        own, base = type(self), FusedOptimizer
        return self._by_element or (
            bool(vars(own).get("_sums_shards"))
            and own.update is base.update
            and own.update_multi_precision is base.update_multi_precision
        )

    def _takes_scale(self) -> bool:
        return self._takes_lists()

    def _update_list(
        self,
        indices: Sequence[Any],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[Any],
        scale: NDArray | None = None,
    ) -> None:
        """Do the same as `update_multi_precision` for weights on one context."""
        self._apply(indices, weights, grads, *self._without_masters(weights, states), scale)

    def _without_masters(
        self, weights: Sequence[NDArray], states: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[NDArray | None]]:
        """Split states of half-precision weights into the inner states and the float32 copies."""
        if not self.multi_precision:
            return states, [None] * len(states)
        pairs = [
            self._split_state(state) if is_half(weight) else (None, state)
            for weight, state in zip(weights, states)
        ]
        return [state for _, state in pairs], [master for master, _ in pairs]

    def _update_by_context(
        self,
        indices: Sequence[Any],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[Any],
        masters: Sequence[NDArray | None],
    ) -> None:
        places: dict[str, list[int]] = {}
        for i, weight in enumerate(weights):
            places.setdefault(str(weight.ctx), []).append(i)
        for chosen in places.values():
            every_list = (indices, weights, grads, states, masters)
            lists: list[Any] = [[every[i] for i in chosen] for every in every_list]
            self._apply(*lists)

    def _apply(
        self,
        indices: Sequence[Any],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[Any],
        masters: Sequence[NDArray | None],
        scale: NDArray | None = None,
    ) -> None:
        """Count the updates of weights on one context, then run them."""
        rates = self._begin_updates(indices)
        batch = Weights(indices, weights, grads, states, masters, *rates, scale)
        self._run(batch, self._hyper(batch))

    def _run(self, batch: Weights, hyper: dict[str, Any]) -> None:
        """Call one operator for each group of dense weights that can be updated together."""
        step = max(1, min(self.aggregate_num, _MOST_WEIGHTS))
        options = (step, batch.scale is None)
        context = str(batch.weights[0].ctx) if batch.weights else ""
        # Copies of the optimizer have no plans.
        plans: dict[str, _Plan] = self.__dict__.setdefault("_plans", {})
        plan = plans.get(context)
        if plan is not None and plan.fits(batch, options):
            for call in plan.calls:
                _call(call, hyper, batch.scale)
            return
        groups: dict[Any, list[int]] = {}
        arrays: list[Sequence[NDArray]] = []
        calls: list[_Call] = []
        in_turn = len(set(map(id, batch.weights))) < len(batch.weights)  # a weight occurs twice
        for i, weight in enumerate(batch.weights):
            name, state = self._operator(batch.states[i])
            arrays.append(state)
            grad, mixed = batch.grads[i], batch.masters[i] is not None
            if not _are_dense(weight, grad):
                self._run_sparse(batch, hyper, i, name, state)
            elif in_turn:
                calls.append(_dense_call(batch, [i], arrays, name, mixed))
                _call(calls[-1], hyper, batch.scale)
            else:
                groups.setdefault((name, mixed, weight.dtype), []).append(i)
        for (name, mixed, _), members in groups.items():
            for at in range(0, len(members), step):
                calls.append(_dense_call(batch, members[at : at + step], arrays, name, mixed))
                _call(calls[-1], hyper, batch.scale)
        plans.pop(context, None)
        # Stores the calls unless a stored call would keep an array alive or a state is mutable.
        if all(isinstance(state, tuple) for state in arrays) and all(
            _are_dense(weight, grad) and weight.grad is grad
            for weight, grad in zip(batch.weights, batch.grads)
        ):
            lists = (batch.weights, batch.grads, batch.states, batch.masters)
            plans[context] = _Plan(tuple(map(list, lists)), options, calls)

    def _run_sparse(
        self, batch: Weights, hyper: dict[str, Any], i: int, name: str, state: Sequence[NDArray]
    ) -> None:
        """Update one weight that is sparse or has a sparse gradient."""
        assert batch.scale is None
        weight, grad, master = batch.weights[i], batch.grads[i], batch.masters[i]
        form = _form(name, False, master is not None)
        if form is not None and master is not None:
            _call(_Call(form, [weight, grad, *state, master], [weight], [i], None), hyper)
            return
        form = _form(name, False, False) or _form(name, True, False)
        assert form is not None
        if master is None:
            _call(_Call(form, [weight, grad, *state], [weight], [i], None), hyper)
        else:
            data = [master, grad.astype("float32"), *state]
            _call(_Call(form, data, [master], [i], None), hyper)
            weight[:] = master.astype(weight.dtype)


def _dense_call(
    batch: Weights, chosen: list[int], states: list[Sequence[NDArray]], name: str, mixed: bool
) -> _Call:
    """Return the call that updates some of the weights together."""
    single = len(chosen) == 1 and batch.scale is None
    form = (_form(name, False, mixed) if single else None) or _form(name, True, mixed)
    assert form is not None
    data: list[NDArray] = []
    for i in chosen:
        data += (batch.weights[i], batch.grads[i], *states[i])
        if mixed:
            data.append(batch.masters[i])  # type: ignore[arg-type]
    neighbours = chosen[-1] - chosen[0] + 1 == len(chosen)
    together = slice(chosen[0], chosen[-1] + 1) if neighbours else None
    return _Call(form, data, [batch.weights[i] for i in chosen], chosen, together)


def _call(call: _Call, hyper: dict[str, Any], scale: NDArray | None = None) -> None:
    """Call an update operator with the hyper-parameters of its weights."""
    options: dict[str, Any] = {}
    form, data, count = call.form, call.data, len(call.chosen)
    for key, value in hyper.items():
        name = form.names.get(key)
        if key == "rescale_grad" and form.scale_is_input:
            scale = _rescale_input(value, call.weights[0], scale)
        elif name is None:
            continue
        elif isinstance(value, list):
            options[name] = call.numbers(value) if form.many else value[call.chosen[0]]
        else:
            options[name] = [value] * count if name != key else value
    if form.many:
        options[form.count_name] = count
    if scale is not None:
        data = [*data, scale]
    form.call(*data, out=call.weights if form.many else call.weights[0], **options)


def _rescale_input(rescale: float, weight: NDArray, scale: NDArray | None) -> NDArray:
    """Return the gradient factor as an array, for operators for which it is an input."""
    if scale is None:
        return nd.array([rescale], ctx=weight.ctx, dtype="float64")
    # Uses the weights' precision, so that a scale of exactly 1 changes no bit.
    return (scale.astype("float64") if weight.dtype == np.float64 else scale) * rescale


def _are_dense(*arrays: NDArray) -> bool:
    return all(_core.array_kind(array) == "dense" for array in arrays)


def _aggregation_size(text: str) -> int:
    try:
        return max(1, int(text))
    except ValueError:
        raise ValueError_(
            f"MXNET_OPTIMIZER_AGGREGATION_SIZE must be a number of weights, got {text!r}"
        ) from None
