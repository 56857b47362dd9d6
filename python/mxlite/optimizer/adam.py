"""Adam and its relatives."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import _core
from .. import ndarray as nd
from ..base import ValueError_
from .fused import FusedOptimizer, Weights
from .optimizer import register
from .settling import Settled
from .shards import whole_squares

__all__ = ["FTML", "LAMB", "Adam", "AdamW", "Adamax", "Nadam"]

# Options of LAMB's first operator, which computes the step.
_FIRST_PART = ("beta1", "beta2", "epsilon", "bias_correction", "rescale_grad", "clip_gradient")


class _TwoMoments(FusedOptimizer):
    """Base of optimizers that keep the mean and the variance of the gradient."""

    _state_count = 2
    _option_names: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "epsilon")

    def __init__(
        self, learning_rate: float | None, beta1: float, beta2: float, epsilon: float, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        for label, value in (("beta1", beta1), ("beta2", beta2)):
            if not 0.0 <= value < 1.0:
                raise ValueError_(
                    f"{type(self).__name__}: {label} must be at least 0 and less than 1, got "
                    f"{value}"
                )
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon


@register
class Adam(_TwoMoments):
    """``weight -= lr * mean / (sqrt(var) + epsilon)`` (Kingma and Ba, 2014).

    Parameters
    ----------
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.001.
    beta1, beta2 : float
        Decay rates of the running means of the gradient and of its square.
    epsilon : float
    lazy_update : bool
        Update only the rows that a row-sparse gradient has.
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "adam_update"
    _option_names = (*_TwoMoments._option_names, "lazy_update")
    _on_servers = True
    _default_rate = 0.001

    def __init__(
        self,
        learning_rate: float | None = None,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.lazy_update = lazy_update


@register
class AdamW(_TwoMoments):
    """`Adam` with decoupled weight decay (Loshchilov and Hutter, 2017).

    Parameters
    ----------
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.001.
    beta1, beta2 : float
    epsilon : float
    correct_bias : bool
        Whether the running means are corrected for their start at 0.
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "_adamw_update"
    _decoupled = True
    _on_servers = True
    _default_rate = 0.001

    def __init__(
        self,
        learning_rate: float | None = None,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        correct_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.correct_bias = correct_bias

    def _options(self) -> dict[str, Any]:
        # The operator computes eta * (lr * step + wd * weight), so eta is the only factor of wd.
        options = {**super()._options(), "eta": 1.0}
        return options if self.correct_bias else {**options, "t": 0}


@register
class Adamax(_TwoMoments):
    """Adam with the infinity norm.

    Parameters
    ----------
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.002.
    beta1, beta2 : float
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "_adamax_update"
    _on_servers = True
    _default_rate = 0.002

    def __init__(
        self,
        learning_rate: float | None = None,
        beta1: float = 0.9,
        beta2: float = 0.999,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, 0.0, **kwargs)


@register
class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum (Dozat, 2016).

    Parameters
    ----------
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.001.
    beta1, beta2 : float
    epsilon : float
    schedule_decay : float
        Decay rate of the schedule of momentum factors, which all weights share.
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "_nadam_update"
    _by_weight = False  # all weights use one momentum schedule
    m_schedule = Settled[float]()
    _counts = (*_TwoMoments._counts, "m_schedule")

    _default_rate = 0.001

    def __init__(
        self,
        learning_rate: float | None = None,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def _momentum(self, count: int) -> float:
        return float(self.beta1 * (1.0 - 0.5 * 0.96 ** (count * self.schedule_decay)))

    def _hyper(self, batch: Weights) -> dict[str, Any]:
        momenta = [self._momentum(count) for count in batch.counts]
        schedules = []
        for momentum in momenta:
            self.m_schedule *= momentum
            schedules.append(self.m_schedule)
        return {
            **super()._hyper(batch),
            "momentum": momenta,
            "next_momentum": [self._momentum(count + 1) for count in batch.counts],
            "schedule": schedules,
        }


@register
class FTML(_TwoMoments):
    """Follows the moving leader (Zheng and Kwok, 2017).

    Parameters
    ----------
    beta1, beta2 : float
    epsilon : float
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "ftml_update"
    _state_count = 3
    _clip_name = "clip_grad"
    _on_servers = True

    def __init__(
        self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any
    ) -> None:
        learning_rate = kwargs.pop("learning_rate", None)
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)


@register
class LAMB(_TwoMoments):
    """Adam with a trust ratio ``|weight| / |step|`` per layer (You et al., 2019).

    Parameters
    ----------
    learning_rate : float, optional
        Default is the base rate of ``lr_scheduler``, else 0.001.
    beta1, beta2 : float
    epsilon : float
    lower_bound, upper_bound : float, optional
        Bounds of ``|weight|`` in the ratio.
    bias_correction : bool
    **kwargs
        As in `Optimizer`.
    """

    _operator_name = "lamb_update"
    _option_names = (*_TwoMoments._option_names, "bias_correction")
    _by_element = False
    _sums_shards = True

    _default_rate = 0.001

    def __init__(
        self,
        learning_rate: float | None = None,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        if self.lower_bound:
            options["lower_bound"] = self.lower_bound
        if self.upper_bound:
            options["upper_bound"] = self.upper_bound
        return options

    def _takes_scale(self) -> bool:
        return super()._takes_scale() and not self._shards

    def _run(self, batch: Weights, hyper: dict[str, Any]) -> None:
        shards = [i for i, index in enumerate(batch.indices) if index in self._shards]
        rest = [i for i, index in enumerate(batch.indices) if index not in self._shards]
        if not shards:
            super()._run(batch, hyper)
            return
        if rest:
            lists = {key: entry for key, entry in hyper.items() if isinstance(entry, list)}
            chosen = {key: [entry[i] for i in rest] for key, entry in lists.items()}
            super()._run(batch.only(*rest), {**hyper, **chosen})
        self._run_shards(batch.only(*shards), hyper)

    def _run_shards(self, batch: Weights, hyper: dict[str, Any]) -> None:
        """Update shards of weights, using the norms of whole weights and steps."""
        assert batch.scale is None
        first = {key: hyper[key] for key in _FIRST_PART if key in hyper}
        second = {key: hyper[key] for key in ("lower_bound", "upper_bound") if key in hyper}
        steps, exact = [], []
        for i, weight in enumerate(batch.weights):
            master = batch.masters[i]
            data = [weight, batch.grads[i], *batch.states[i]]
            name = "lamb_update_phase1" if master is None else "mp_lamb_update_phase1"
            if master is not None:
                data.append(master)
            steps.append(_core.op(name)(*data, t=batch.counts[i], wd=batch.wds[i], **first))
            exact.append(weight if master is None else master)
        indices = [*batch.indices, *batch.indices]
        norms = nd.sqrt(whole_squares(indices, [*exact, *steps], self._shards))
        count = len(steps)
        for i, weight in enumerate(batch.weights):
            master = batch.masters[i]
            data = [weight, steps[i], norms[i : i + 1], norms[count + i : count + i + 1]]
            name = "lamb_update_phase2" if master is None else "mp_lamb_update_phase2"
            if master is not None:
                data.append(master)
            _core.op(name)(*data, lr=batch.lrs[i], out=weight, **second)
