"""Code shared by all families of the zoo: loading, and the convolution + BatchNorm + ReLU group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Protocol, TypeVar, Union

from ....base import ValueError_
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ..model_store import get_model_file

Pair = Union[int, tuple[int, int]]
Net = TypeVar("Net", bound=HybridBlock)
Key = TypeVar("Key")
Value = TypeVar("Value")
Made = TypeVar("Made", bound=HybridBlock, covariant=True)

# Functions of the zoo by the name of the parameter file.
MODELS: dict[str, ZooFunction[HybridBlock]] = {}


class ZooFunction(Protocol[Made]):
    """Type of a function of the zoo."""

    def __call__(
        self, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
    ) -> Made:
        """Return the network."""


def zoo_function(
    name: str,
    title: str,
    klass: type[Net],
    *arguments: Any,
    get: Callable[..., Net] | None = None,
    file: str = "",
    options: str = "``classes``",
    **fixed: Any,
) -> ZooFunction[Net]:
    """Return the function ``name`` for the module of ``klass``, and add it to ``MODELS``.

    The function calls ``get``, or makes ``klass(*arguments)`` and loads ``file`` (by default the
    parameters of ``name``). The caller cannot override ``fixed``.
    """
    file = file or name

    def function(
        pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
    ) -> Net:
        kwargs.update(fixed)
        if get is not None:
            return get(pretrained=pretrained, ctx=ctx, root=root, **kwargs)
        return finish(klass(*arguments, **kwargs), file, pretrained, ctx, root)

    function.__name__ = function.__qualname__ = name
    function.__module__ = klass.__module__
    function.__annotations__["return"] = klass.__name__
    function.__doc__ = _DOC.format(title=title, name=klass.__name__, options=options)
    MODELS[file] = function
    return function


_DOC = """Return {title}.

Parameters
----------
pretrained : bool
    Load the parameters from ``root``.
ctx : Context, optional
    Where loaded parameters go; the CPU by default.
root : str, optional
    Folder of parameter files.
**kwargs
    Arguments of :class:`{name}`, such as {options}.

Returns
-------
{name}
    The network.
"""


def pick(family: str, argument: str, key: Key, table: Mapping[Key, Value]) -> Value:
    """Return ``table[key]``."""
    if key not in table:
        known = ", ".join(str(entry) for entry in table)
        raise ValueError_(f"{family}: {argument} must be one of {known}, got {key!r}")
    return table[key]


def finish(net: Net, name: str, pretrained: bool, ctx: Any, root: str | None) -> Net:
    """Return ``net``, with the parameters of ``name`` loaded if ``pretrained``."""
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
    """Return convolution, BatchNorm and (unless ``activation`` is None) an activation, unnamed."""
    group = nn.HybridSequential(prefix="")
    group.add(nn.Conv2D(channels, kernel_size, strides, padding, use_bias=use_bias))
    group.add(nn.BatchNorm(epsilon=epsilon, scale=scale))
    if activation is not None:
        group.add(nn.Activation(activation))
    return group


def chain(*layers: HybridBlock) -> nn.HybridSequential:
    """Return a block that runs ``layers`` one after another, without a name prefix."""
    group = nn.HybridSequential(prefix="")
    group.add(*layers)
    return group


def parallel(*branches: HybridBlock, prefix: str = "") -> HybridConcurrent:
    """Return a block that concatenates the outputs of branches along the channels."""
    group = HybridConcurrent(axis=1, prefix=prefix)
    if branches:
        group.add(*branches)
    return group
