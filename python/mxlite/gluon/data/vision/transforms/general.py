"""Transforms that combine others, change types, or make tensors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ..... import ndarray as nd
from ....._typed_init import check_number
from .....base import ValueError_
from .....ndarray import NDArray
from ....block import Block, HybridBlock
from ....nn import HybridSequential, Sequential

__all__ = [
    "Cast",
    "Compose",
    "HybridCompose",
    "HybridRandomApply",
    "Normalize",
    "RandomApply",
    "ToTensor",
]


class Compose(Sequential):
    """Applies transforms one after another.

    Matches ``mxnet.gluon.data.vision.transforms.Compose``, but runs hybrid transforms as they
    are: a graph for each size of image would cost more than it saves. `hybridize` compiles one.
    """

    def __init__(self, transforms: Sequence[Block]) -> None:
        super().__init__()
        self.add(*transforms)


class HybridCompose(HybridSequential):
    """Applies hybrid transforms one after another; hybridized."""

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        self.add(*transforms)
        self.hybridize()


class Cast(HybridBlock):
    """Converts to a type.

    Matches ``mxnet.gluon.data.vision.transforms.Cast``.

    Parameters
    ----------
    dtype : str or numpy.dtype
    """

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return x as the type."""
        return F.cast(x, self._dtype)


class ToTensor(HybridBlock):
    """``x / 255`` with channels first: (H, W, C) or (N, H, W, C) to float32 (C, H, W) or (N, ...).

    Matches ``mxnet.gluon.data.vision.transforms.ToTensor``.
    """

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return the tensor of an image."""
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """``(x - mean) / std`` for each channel of (C, H, W) or (N, C, H, W).

    Matches ``mxnet.gluon.data.vision.transforms.Normalize``.

    Parameters
    ----------
    mean, std : float or tuple of float
    """

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        for label, value in (("mean", mean), ("std", std)):
            for part in value if isinstance(value, (tuple, list)) else (value,):
                check_number("Normalize", label, part)
        self._mean = mean
        self._std = std

    def hybrid_forward(self, F: Any, x: Any) -> NDArray:  # noqa: N803
        """Return the normalized tensor."""
        return F.image.normalize(x, self._mean, self._std)


def _check_probability(name: str, p: float) -> float:
    if not 0 <= p <= 1:
        raise ValueError_(f"{name}: the probability must be 0 to 1, got {p}")
    return p


class RandomApply(Sequential):
    """Applies all of its transforms with a probability, otherwise none.

    Matches ``mxnet.gluon.data.vision.transforms.RandomApply`` and accepts lists. Python's generator
    draws.

    Parameters
    ----------
    transforms : Block or list of Block
    p : float
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.p = _check_probability("RandomApply", p)
        many = isinstance(transforms, (list, tuple))
        # Assigning the block to an attribute makes the block a child.
        self.transforms = Compose(transforms) if many else transforms

    def forward(self, x: NDArray, *args: Any) -> NDArray:
        """Return x, perhaps transformed."""
        return x if self.p < random.random() else self.transforms(x, *args)


class HybridRandomApply(HybridSequential):
    """Applies a hybrid transform with a probability; each call draws again.

    Parameters
    ----------
    transforms : HybridBlock or list of HybridBlock
        Must keep shape and type.
    p : float
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.p = _check_probability("HybridRandomApply", p)
        self.add(*(transforms if isinstance(transforms, (list, tuple)) else [transforms]))

    def forward(self, x: Any, *args: Any) -> NDArray:
        """Return x, perhaps transformed."""
        chosen = nd.random.uniform(shape=(1,)) < self.p
        chosen = chosen.reshape((1,) * x.ndim)
        return nd.where(nd.broadcast_like(chosen, x), super().forward(x, *args), x)
