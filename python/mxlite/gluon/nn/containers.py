"""Blocks made of a list of blocks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ...ndarray import NDArray
from ..block import Block, HybridBlock
from ..block.summary import indented, tree

__all__ = ["HybridSequential", "Sequential"]


def _children_lines(block: Block) -> list[str]:
    return [f"  ({key}): {indented(repr(child))}" for key, child in block._children.items()]


def _run(container: Block, x: Any, args: tuple[Any, ...]) -> Any:
    for block in container._children.values():
        x = block(x, *args)
        args = ()
        if isinstance(x, (tuple, list)):
            args = tuple(x[1:])
            x = x[0]
    return [x, *args] if args else x


def _chosen(container: Any, key: int | slice) -> Any:
    layers = list(container._children.values())[key]
    if not isinstance(layers, list):
        return layers
    net = type(container)(prefix=container._prefix)
    with net.name_scope():
        net.add(*layers)
    return net


class Sequential(Block):
    """Blocks that run one after the other.

    Examples
    --------
    >>> net = nn.Sequential()
    >>> net.add(nn.Dense(10, activation="relu"), nn.Dense(20))
    """

    _is_container = True

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        for block in blocks:
            self.register_child(block)

    def forward(self, x: Any, *args: Any) -> NDArray | Any:
        """Run the children; each gets the output of the previous one."""
        return _run(self, x, args)

    def __repr__(self) -> str:
        return tree(type(self).__name__, _children_lines(self))

    def __getitem__(self, key: int | slice) -> Any:
        return _chosen(self, key)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(list(self._children.values()))

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children; see `Block.hybridize`.

        Parameters
        ----------
        active : bool
        **kwargs
            As in `HybridBlock.hybridize`.
        """
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer {self.prefix!r} are HybridBlocks. Consider "
                "using HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(HybridBlock):
    """HybridBlocks that run one after the other, as one graph when hybridized.

    Examples
    --------
    >>> net = nn.HybridSequential()
    >>> net.add(nn.Dense(10, activation="relu"), nn.Dense(20))
    >>> net.hybridize()
    """

    _is_container = True

    def add(self, *blocks: HybridBlock) -> None:
        """Append blocks."""
        for block in blocks:
            self.register_child(block)

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> NDArray | Any:  # noqa: N803
        """Run the children; each gets the output of the previous one."""
        return _run(self, x, args)

    def __repr__(self) -> str:
        return tree(type(self).__name__, _children_lines(self))

    def __getitem__(self, key: int | slice) -> Any:
        return _chosen(self, key)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(list(self._children.values()))
