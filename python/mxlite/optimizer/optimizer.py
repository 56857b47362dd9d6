"""The base of all optimizers: learning rates, weight decay, counts, mixed precision."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .. import ndarray as nd
from .._names_1x import attributes as _attributes
from .._typed_init import TypedInit, check_number
from ..base import NeedsInit, TypeError_, ValueError_, suggestion, unknown_keyword
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray
from ..numpy_mode import is_np_array
from .half import is_half
from .settling import Settled, Settling

__all__ = ["Optimizer", "Test", "create", "register"]

_OptimizerType = TypeVar("_OptimizerType", bound="type[Optimizer]")


class SchedulerSetError(ValueError_, UserWarning):
    """A learning rate was set although a scheduler controls it (1.x raises a UserWarning)."""


class Optimizer(NeedsInit, TypedInit, Settling):
    """Base of the optimizers.

    Matches ``mxnet.optimizer.Optimizer``.

    Parameters
    ----------
    rescale_grad : float
        Factor of the gradient.
    param_idx2name : dict of int to str, optional
        Names by index; weight decay is then 0 for names other than weights and gammas.
    wd : float
        Weight decay.
    clip_gradient : float, optional
        Clip gradients to ``[-clip_gradient, clip_gradient]``.
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.01.
    lr_scheduler : LRScheduler, optional
    sym : Symbol, optional
        Symbol whose variables may have the attributes ``lr_mult`` and ``wd_mult``.
    begin_num_update : int
        Number of updates that were made before.
    multi_precision : bool
        Keep a float32 copy of half-precision weights.
    param_dict : dict of int to Parameter, optional
        Parameters whose ``lr_mult`` and ``wd_mult`` are used.
    """

    _set_by_init = "rescale_grad"
    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}
    # Whether equal gradients give equal weights on all workers.
    _same_everywhere: ClassVar[bool] = True
    _by_weight: ClassVar[bool] = True  # whether updates are independent of updates of other weights
    _by_element: ClassVar[bool] = True  # whether shards of a weight may be updated independently
    _row_states: ClassVar[bool] = False  # whether a state has one value per row of the weight
    # By index, for weights of which this process updates a shard: the process set of all shards.
    _shards: Mapping[Any, int] = MappingProxyType({})
    _transient = (*Settling._transient, "_shards")
    _default_rate: ClassVar[float] = 0.01  # used if neither a rate nor a scheduler is given
    # Maximum number of weights per call of update_multi_precision. If it is above 1, the arguments
    # of this call are lists.
    aggregate_num = 0
    # Reading these counts waits for the previous step's overflow check. `_counts` lists the counts
    # that are restored if the step is skipped.
    num_update = Settled[int]()
    _all_index_update_counts = Settled[dict[int, dict[Any, int]]]()
    _index_update_count = Settled[dict[Any, int]]()
    _counts: ClassVar[tuple[str, ...]] = ("num_update", "_all_index_update_counts")

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Mapping[Any, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: LRScheduler | None = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Mapping[Any, Any] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise unknown_keyword(type(self), next(iter(unknown)))
        if param_idx2name is not None and not isinstance(param_idx2name, Mapping):
            raise TypeError_(
                f"{type(self).__name__}: param_idx2name must be a dict of param indexes to names, "
                f"got {param_idx2name!r}"
            )
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is not None and not callable(lr_scheduler):
            raise TypeError_(
                f"{type(self).__name__}: lr_scheduler must be an LRScheduler, got {lr_scheduler!r}"
            )
        if learning_rate is not None:
            check_number(type(self).__name__, "learning_rate", learning_rate)
            if lr_scheduler is not None and hasattr(lr_scheduler, "base_lr"):
                self._replace_base_rate(lr_scheduler, learning_rate)
        elif lr_scheduler is not None:
            # Functions as schedulers do not have this attribute.
            learning_rate = getattr(lr_scheduler, "base_lr", None)
        self.lr = self._default_rate if learning_rate is None else learning_rate
        self.wd = wd
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.allow_np_array = is_np_array()  # optimizers for 1.x read it
        self.idx2name = dict(param_idx2name or {})
        self.param_dict = dict(param_dict or {})
        # User-defined optimizers for 1.x read attributes and names of the symbol's variables.
        self.sym_info = () if sym is None else (sym.attr_dict(), sym.list_arguments())
        self.set_lr_mult({})
        self.set_wd_mult({})

    def _replace_base_rate(self, scheduler: LRScheduler, rate: float) -> None:
        """Set the base rate of a scheduler to an explicit rate, and warn which one is used."""
        name, before = type(scheduler).__name__, scheduler.base_lr
        scheduler.base_lr = rate
        if before == rate:
            return
        text = f"learning_rate={rate} has no effect, because the {name} computes its rates from "
        text += f"base_lr={before}; give the rate as base_lr only"
        if getattr(scheduler, "_follows_base_lr", True):
            print("learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` "
                  "in optimizer.")  # fmt: skip
            text = f"learning_rate={rate} is used instead of base_lr={before} of the {name}; give "
            text += "only one of them"
        warnings.warn(f"{type(self).__name__}: {text}", stacklevel=4)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.learning_rate}, wd={self.wd})"

    @staticmethod
    def register(klass: _OptimizerType) -> _OptimizerType:
        """Register a class under its lower-case name.

        Parameters
        ----------
        klass : type

        Returns
        -------
        type
        """
        name = klass.__name__.lower()
        known = Optimizer.opt_registry.get(name)
        if known is not None and known is not klass:
            warnings.warn(
                f"WARNING: New optimizer {klass.__module__}.{klass.__name__} is overriding "
                f"existing optimizer {known.__module__}.{known.__name__}",
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Make an optimizer from its name.

        Parameters
        ----------
        name : str
            Case does not matter.
        **kwargs
            Arguments of the class.

        Raises
        ------
        ValueError
            For an unknown name.
        """
        if isinstance(name, Optimizer):
            return name
        if not isinstance(name, str):
            raise TypeError_(f"optimizer: name must be a text, got {name!r}")
        klass = Optimizer.opt_registry.get(name.lower())
        if klass is None:
            known = Optimizer.opt_registry
            raise ValueError_(
                f"Cannot find optimizer {name!r}{suggestion(name.lower(), known) or '.'} Known: "
                f"{', '.join(sorted(known))}"
            )
        try:
            return klass(**kwargs)
        except TypeError as error:
            raise TypeError_(f"optimizer {name!r}: {error}") from None

    @property
    def learning_rate(self) -> float:
        """The current rate: the scheduler's value if there is one."""
        if self.lr_scheduler is not None:
            return float(self.lr_scheduler(self.num_update))
        return self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Set the rate.

        Raises
        ------
        SchedulerSetError
            If there is a scheduler, which would ignore it.
        """
        if self.lr_scheduler is not None:
            raise SchedulerSetError(
                "LRScheduler of the optimizer has already been defined. Note that "
                "set_learning_rate can mutate the value of the learning rate of the optimizer only "
                "when the LRScheduler of the optimizer is undefined."
            )
        check_number("set_learning_rate", "lr", lr)
        self.lr = lr

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Set factors of the learning rate by index or name."""
        self.lr_mult = {**self._factors_of_symbol("lr_mult"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set factors of the weight decay by index or name."""
        self.wd_mult = {
            name: 0.0 for name in self.idx2name.values() if not name.endswith(("_weight", "_gamma"))
        }
        self.wd_mult.update(self._factors_of_symbol("wd_mult"))
        self.wd_mult.update(args_wd_mult)

    def _factors_of_symbol(self, key: str) -> dict[Any, float]:
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        given = {name: attrs.get(name, {}).get(f"__{key}__") for name in names}
        return {name: float(value) for name, value in given.items() if value is not None}

    # -- state and update ------------------------------------------------------------------------

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the state of one weight: None, an array or a tuple.

        Parameters
        ----------
        index : int or str
        weight : NDArray

        Returns
        -------
        None, NDArray or tuple
        """
        return None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the state of one weight, with a float32 copy under multi_precision.

        Parameters
        ----------
        index : int or str
        weight : NDArray

        Returns
        -------
        None, NDArray or tuple
        """
        if is_half(weight):
            if self.multi_precision:
                master = weight.astype("float32")
                return (master, self.create_state(index, master))
            warnings.warn(
                "Accumulating with a half-precision type in optimizer can lead to poor accuracy or "
                "slow convergence. Consider using multi_precision=True option of the optimizer",
                stacklevel=2,
            )
        return self.create_state(index, weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Change a weight in place; every optimizer must define this method.

        Parameters
        ----------
        index : int or str
        weight : NDArray
        grad : NDArray
        state : None, NDArray or tuple
        """
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def update_multi_precision(
        self, index: Any, weight: NDArray, grad: NDArray, state: Any
    ) -> None:
        """Change a weight in place, using its float32 copy if there is one.

        Several weights are changed if all four arguments are lists.

        Parameters
        ----------
        index : int or str
        weight : NDArray
        grad : NDArray
        state : None, NDArray or tuple
        """
        if isinstance(index, (list, tuple)):
            for arguments in zip(index, weight, grad, state):
                self.update_multi_precision(*arguments)
        elif self.multi_precision and is_half(weight):
            master, inner = self._split_state(state)
            self.update(index, master, grad.astype("float32"), inner)
            weight[:] = master.astype(weight.dtype)
        else:
            self.update(index, weight, grad, state)

    def _split_state(self, state: Any) -> tuple[NDArray, Any]:
        """Return the float32 copy and the inner state of a half-precision weight's state."""
        master, inner = state
        return master, inner

    def _takes_shards(self) -> bool:
        """Return whether, given `_shards`, a shard can be updated like part of a whole weight."""
        return self._by_element

    def _takes_lists(self) -> bool:
        """Return whether `Updater` passes lists of weights of one dtype."""
        return self.aggregate_num > 1

    def _takes_scale(self) -> bool:
        """Return whether updates of lists accept an array as an additional gradient factor."""
        return False

    def _update_list(
        self,
        indices: Sequence[Any],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[Any],
        scale: NDArray | None = None,
    ) -> None:
        """Call `update_multi_precision` with up to ``aggregate_num`` weights of one dtype."""
        assert scale is None
        by_dtype: dict[Any, list[int]] = {}
        for i, weight in enumerate(weights):
            by_dtype.setdefault(weight.dtype, []).append(i)
        for members in by_dtype.values():
            for at in range(0, len(members), self.aggregate_num):
                chosen = members[at : at + self.aggregate_num]
                lists: list[Any] = [
                    [every[i] for i in chosen] for every in (indices, weights, grads, states)
                ]
                self.update_multi_precision(*lists)

    # -- helpers of subclasses -------------------------------------------------------------------

    def _set_current_context(self, device_id: int) -> None:
        """Select the device whose update counts are used."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any) -> None:
        """Count an update of one weight."""
        indices = index if isinstance(index, (list, tuple)) else [index]
        for entry in indices:
            count = self._index_update_count.get(entry, self.begin_num_update) + 1
            self._index_update_count[entry] = count
            self.num_update = max(count, self.num_update)

    def _factor(self, index: Any, kind: str, by_key: Mapping[Any, float]) -> float:
        if index in self.param_dict:
            return float(getattr(self.param_dict[index], kind))
        if index in by_key:
            return by_key[index]
        return by_key.get(self.idx2name.get(index), 1.0)

    def _get_lr(self, index: Any) -> float:
        """Return the learning rate of one weight."""
        return self.learning_rate * self._factor(index, "lr_mult", self.lr_mult)

    def _get_wd(self, index: Any) -> float:
        """Return the weight decay of one weight."""
        return self.wd * self._factor(index, "wd_mult", self.wd_mult)

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        """Return the learning rates of several weights."""
        return [self._get_lr(index) for index in indices]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        """Return the weight decays of several weights."""
        return [self._get_wd(index) for index in indices]

    def _begin_update(self, index: Any) -> tuple[float, float, int]:
        """Count an update; return learning rate, weight decay and the count."""
        self._update_count(index)
        return self._get_lr(index), self._get_wd(index), self._index_update_count[index]

    def _begin_updates(self, indices: Sequence[Any]) -> tuple[list[float], list[float], list[int]]:
        """Count an update of each weight in turn; return learning rates, decays and counts."""
        own, base = type(self), Optimizer
        if (
            own._begin_update is not base._begin_update
            or own._update_count is not base._update_count
            or own._get_lr is not base._get_lr
            or own._get_wd is not base._get_wd
        ):
            found = [self._begin_update(index) for index in indices]
            return [lr for lr, _, _ in found], [wd for _, wd, _ in found], [n for _, _, n in found]
        params, done = self.param_dict, self._index_update_count
        counts = [done.get(index, self.begin_num_update) + 1 for index in indices]
        if counts and min(counts) == max(counts) and len(set(indices)) == len(counts):
            done.update(zip(indices, counts))
            self.num_update = max(counts[0], self.num_update)
            rate, decay = self.learning_rate, self.wd
            if all(map(params.__contains__, indices)):
                of = [params[index] for index in indices]
                return (
                    [rate * float(param.lr_mult) for param in of],
                    [decay * float(param.wd_mult) for param in of],
                    counts,
                )
            return (
                [rate * self._factor(index, "lr_mult", self.lr_mult) for index in indices],
                [decay * self._factor(index, "wd_mult", self.wd_mult) for index in indices],
                counts,
            )
        lrs, wds, counts = [], [], []
        newest: int | None = None  # value of num_update for which `rate` was computed
        rate, decay = 0.0, self.wd
        for index in indices:
            count = done.get(index, self.begin_num_update) + 1
            done[index] = count
            if count > self.num_update:
                self.num_update = count
            if newest != self.num_update:
                newest, rate = self.num_update, self.learning_rate
            if index in params:
                param = params[index]
                lrs.append(rate * float(param.lr_mult))
                wds.append(decay * float(param.wd_mult))
            else:
                lrs.append(rate * self._factor(index, "lr_mult", self.lr_mult))
                wds.append(decay * self._factor(index, "wd_mult", self.wd_mult))
            counts.append(count)
        return lrs, wds, counts

    def _rescaled(self, grad: NDArray, weight: NDArray | None = None, wd: float = 0.0) -> Any:
        """Return the gradient rescaled, with weight decay if ``weight`` is given, then clipped."""
        grad = grad * self.rescale_grad
        if weight is not None:
            grad = grad + wd * weight
        if self.clip_gradient is not None:
            grad = nd.clip(grad, -self.clip_gradient, self.clip_gradient)
        return grad


register = Optimizer.register
create = Optimizer.create_optimizer


@register
class Test(Optimizer):
    """Adds the rescaled gradient to the weight; for tests of stores and updaters."""

    _on_servers = True

    def _for_servers(self, state: Any) -> dict[str, Any]:
        """Return the description of the update for servers."""
        return {"operator": "sgd_update", "params": {"lr": -1.0, "wd": 0.0}}

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        """Return zeros of the weight's shape."""
        return nd.zeros_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Add the gradient and copy the weight into the state."""
        weight[:] = weight + grad * self.rescale_grad
        state[:] = weight


if not TYPE_CHECKING:
    __getattr__, __dir__ = _attributes(__name__)
