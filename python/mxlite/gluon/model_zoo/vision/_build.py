"""Shared by every family of the zoo: loading, and the convolution + BatchNorm + ReLU group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Union

from ....base import ValueError_
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ..model_store import get_model_file

Pair = Union[int, tuple[int, int]]
Net = TypeVar("Net", bound=HybridBlock)
Key = TypeVar("Key")
Value = TypeVar("Value")


def pick(family: str, argument: str, key: Key, table: Mapping[Key, Value]) -> Value:
    """Return ``table[key]``.

    Parameters
    ----------
    family : str
        Name of the network family, for the message.
    argument : str
        Name of the argument that ``key`` came from.
    key : hashable
        The given value.
    table : mapping
        The existing names.

    Returns
    -------
    object
        The entry.

    Raises
    ------
    ValueError
        No such entry; the message lists the existing ones.
    """
    if key not in table:
        known = ", ".join(str(entry) for entry in table)
        raise ValueError_(f"{family}: {argument} is {key!r}, expected one of {known}")
    return table[key]


def finish(net: Net, name: str, pretrained: bool, ctx: Any, root: str | None) -> Net:
    """Load the parameters of ``name`` into ``net`` when ``pretrained``, and return it.

    Parameters
    ----------
    net : HybridBlock
        The new network.
    name : str
        Its name in the zoo.
    pretrained : bool
        Whether to read the parameter file.
    ctx : Context or list of Context, optional
        Context of the parameters; the CPU by default.
    root : str, optional
        Folder of parameter files.

    Returns
    -------
    HybridBlock
        ``net``.

    Raises
    ------
    FileNotFoundError
        ``pretrained`` and no parameter file; the message names the expected ones.
    """
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx=ctx)
    return net


def conv_norm_relu(
    channels: int,
    kernel_size: Pair,
    strides: Pair = 1,
    padding: Pair = 0,
    *,
    epsilon: float = 1e-5,
    use_bias: bool = False,
    scale: bool = True,
    activation: str | None = "relu",
) -> nn.HybridSequential:
    """Return convolution, BatchNorm and (unless ``activation`` is None) an activation, unnamed.

    Parameters
    ----------
    channels : int
        Output channels.
    kernel_size, strides, padding : int or tuple of two ints
        Geometry of the convolution.
    epsilon : float
        Added to the variance by BatchNorm.
    use_bias : bool
        Whether the convolution has a bias.
    scale : bool
        Whether BatchNorm's gamma is learned (1.x: ``fix_gamma=False``).
    activation : str, optional
        Name of the activation.

    Returns
    -------
    HybridSequential
        Two or three layers without a name prefix of their own.
    """
    group = nn.HybridSequential(prefix="")
    group.add(nn.Conv2D(channels, kernel_size, strides, padding, use_bias=use_bias))
    group.add(nn.BatchNorm(epsilon=epsilon, scale=scale))
    if activation is not None:
        group.add(nn.Activation(activation))
    return group


def chain(*layers: HybridBlock) -> nn.HybridSequential:
    """Return ``layers`` one after the other, without a name prefix of their own.

    Parameters
    ----------
    *layers : HybridBlock
        Blocks to apply, in order.

    Returns
    -------
    HybridSequential
        The chain.
    """
    group = nn.HybridSequential(prefix="")
    group.add(*layers)
    return group


def parallel(*branches: HybridBlock, prefix: str = "") -> HybridConcurrent:
    """Return branches that read the same input and are joined along the channels.

    Parameters
    ----------
    *branches : HybridBlock
        Blocks to apply; the order is that of the output's channels.
    prefix : str
        Prefix of the group's name. Layers get their names where they are made, so a group with
        a prefix is filled inside its own ``name_scope()``.

    Returns
    -------
    HybridConcurrent
        The group.
    """
    group = HybridConcurrent(axis=1, prefix=prefix)
    if branches:
        group.add(*branches)
    return group
