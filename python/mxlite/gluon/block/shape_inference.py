"""Shapes of parameters that follow from inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ndarray.structure import flatten
from ..parameter.parameter import Parameter, shape_is_known

if TYPE_CHECKING:
    from ...ndarray import NDArray
    from ...ndarray.structure import Layout
    from ..parameter import ParameterDict
    from .compiled import DeferredTrace

__all__ = ["ShapeInference"]


class ShapeInference:
    """Part of a block that finds unknown shapes by running its forward, or by code of its own."""

    name: str
    _reg_params: dict[str, Parameter]

    if TYPE_CHECKING:

        def collect_params(self, select: str | None = None) -> ParameterDict:
            """Return the parameters; see `Block`."""

        def _infer(
            self, params: list[Parameter], flat: list[NDArray], layout: Layout, finish: bool
        ) -> DeferredTrace:
            """Run forward without values; see `HybridBlock`."""

    def _ask_shapes(self, args: Sequence[Any]) -> None:
        """Call `infer_shape` of a class that defines its own while shapes are unknown."""
        if type(self).infer_shape is not ShapeInference.infer_shape and not all(
            shape_is_known(param.shape) for param in self._reg_params.values()
        ):
            self.infer_shape(*args)

    def infer_shape(self, *args: Any) -> None:
        """Find the parameters' unknown shapes from inputs, without initializing them.

        A layer whose shapes cannot be found by running `hybrid_forward` overrides this and sets
        ``self.weight.shape``.

        Parameters
        ----------
        *args : NDArray or nested lists of them
        """
        flat, layout = flatten(args, f"{self.name}: inputs of infer_shape")
        self._infer(list(self.collect_params().values()), flat, layout, finish=False)
