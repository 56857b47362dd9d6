"""HybridBlock: a block that is traced once and then runs as one compiled graph."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from ... import _core, autograd, symbol
from ... import ndarray as nd
from ...base import (
    ChangedAttributeError,
    DynamicShapeError,
    InputError,
    MXNetError,
    NotSupportedError,
    ShapeError,
    TracedArrayError,
    TypeError_,
    ValueError_,
    suggestion,
)
from ...context import Context, current_context
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from ...ndarray.structure import LEAF, Layout, first_array, flatten, in_class_of, unflatten
from ...profiler.memory import WATCH
from ...symbol import Symbol
from ..call_types import HasForward, HasHybridForward, R_co
from ..parameter import ParameterDict
from ..parameter.bindings import Binding
from ..parameter.parameter import Parameter, shape_is_known
from ..parameter.tracing import STATE, stand_ins
from . import exporting, symbolic
from .block import Block
from .compiled import (
    MISSING,
    Compilation,
    Compiled,
    DeferredTrace,
    forwards_itself,
    is_same,
    keeping_attributes,
    traced_forward,
)
from .error_layers import add_layer, described_line
from .formats import FormatAttribute
from .hooks import OpHook
from .symbolic import (
    call_symbolic,
    has_symbol,
    mixed_inputs,
)

__all__ = ["HybridBlock"]

# If the program changes attributes of a block more often than this, its forward runs eagerly.
_MOST_RETRACES = 4


def _lacks_fixed_graph(error: Exception) -> bool:
    """Return whether a trace ended because a shape or a mode cannot be part of its graph."""
    return isinstance(error, DynamicShapeError) and not isinstance(error, TracedArrayError)


class HybridBlock(Block):
    """A block whose forward uses only operators, so that it can run as one graph.

    Define either ``hybrid_forward(F, x, *args, weight, bias)``, where parameters arrive as keywords
    and ``F`` is ``mx.nd``, or ``mx.sym`` while the block is traced or called with symbols, or
    ``forward(x, *args)``, which asks ``self.weight.data()``.

    Matches ``mxnet.gluon.HybridBlock``.

    Parameters
    ----------
    prefix : str, optional
    params : ParameterDict, optional
        As in `Block`.
    """

    # Name hint of the operator whose node is named "fwd" in symbols, as in the layers of 1.x.
    _node_op = ""

    _cached_graph: Any = exporting.CachedGraph()
    _in_format = FormatAttribute(of_outputs=False)
    _out_format = FormatAttribute(of_outputs=True)

    def __init__(
        self, prefix: str | None = None, params: ParameterDict | None = None, **unknown: Any
    ) -> None:
        super().__init__(prefix, params, **unknown)
        self._active = False
        self._compilation = Compilation({})
        self._op_hook: OpHook | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Register blocks and parameters; a `forward` of the program reads the new value."""
        before = self.__dict__.get(name, MISSING)
        super().__setattr__(name, value)
        bindings = self.__dict__.get("_bindings")
        if bindings is None or is_same(value, before):
            return
        if forwards_itself(self) and stand_ins() is None:
            bindings.expire(retrace=True, changed=True)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy, which makes separate graphs."""
        return {**self.__dict__, "_compilation": Compilation(self._compilation.flags)}

    if TYPE_CHECKING:

        @overload
        def __call__(self, x: Symbol, *args: Any) -> Symbol: ...
        @overload
        def __call__(self: HasForward[R_co], *args: Any) -> R_co: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Run the block (declaration for type checkers)."""

    else:

        def __call__(self, *args):
            """Run the hooks and `forward`, or the compiled graph of a hybridized block."""
            fast = self._compilation.fast
            if fast is not None and fast[1].valid and len(args) == fast[2] and not STATE.traces:
                for array in args:
                    if array.__class__ is not NDArray and _core.array_kind(array) != "dense":
                        break
                else:
                    try:
                        outputs = fast[0](*args)
                    except DynamicShapeError:  # the shapes of this call require an eager run
                        return super().__call__(*args)
                    except Exception as error:
                        if self._may_run_eagerly(error):
                            return super().__call__(*args)
                        if isinstance(error, MXNetError):
                            add_layer(error, self, args)
                        raise
                    if self._compilation.fast is fast:
                        return outputs
                    return self._structured(args, outputs)
            return super().__call__(*args)

    def _structured(self, args: tuple[Any, ...], outputs: Any) -> Any:
        """Return the outputs of a call in the nested containers that forward returned."""
        key = args[0].ctx, tuple(LEAF for _ in args)
        return self._compilation.graphs[key].structured(outputs)

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child, which must be a HybridBlock.

        Parameters
        ----------
        block : HybridBlock
        name : str, optional
        """
        if not isinstance(block, HybridBlock):
            if not isinstance(block, Block):
                super().register_child(block, name)  # raises
            raise ValueError_(
                f"Children of HybridBlock must also be HybridBlock, but {block!r} has type "
                f"{type(block).__name__}. Derive it from HybridBlock (hybrid_forward instead of "
                "forward), or put it into a Block such as nn.Sequential, which is not hybridized "
                "as a whole."
            )
        super().register_child(block, name)
        if self._active:
            block.hybridize(True, **self._compilation.flags)
        self._clear_cached_op()

    def register_op_hook(self, callback: Any, monitor_all: bool = False) -> None:
        """Call ``callback(tensor_name, op_name, array)`` for each operator; see `Block`."""
        self._compilation.fast = None
        self._op_hook = None if callback is None else OpHook(callback, monitor_all)
        super().register_op_hook(callback, monitor_all)

    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Run this block and its children as compiled graphs from now on, or stop doing so.

        Parameters
        ----------
        active : bool
        backend : str, optional
            Only None is supported.
        clear : bool
            Drop graphs compiled before.
        static_alloc, static_shape : bool
            Accepted for MXNet 1.x scripts: memory is always planned for each input shape and kept
            between calls. As in 1.x, ``static_shape`` needs ``static_alloc``.
        inline_limit, forward_bulk_size, backward_bulk_size : int, optional
            Accepted for MXNet 1.x scripts; a graph is always compiled as a whole.
        **kwargs
            Refused.
        """
        if backend is not None:
            raise NotSupportedError(
                f"hybridize: backend must be None, as mxlite has its own graph passes only, got "
                f"{backend!r}"
            )
        for name in kwargs:
            known = [n for n in inspect.signature(HybridBlock.hybridize).parameters if n != "self"]
            raise TypeError_(
                f"hybridize: the keyword {name!r} is unknown"
                f"{suggestion(name, known) or '; known: ' + ', '.join(known[:-1])}"
            )
        if static_shape and not static_alloc:
            raise ValueError_("hybridize: static_shape=True needs static_alloc=True")
        self._active = bool(active)
        options = {"static_alloc": static_alloc, "static_shape": static_shape}
        self._compilation.flags = options if active else {}
        if clear or not active:
            self._clear_cached_op()
        super().hybridize(active, clear=clear, **options)

    def cast(self, dtype: Any) -> None:
        """Convert the parameters; see `Block.cast`."""
        self._clear_cached_op()
        super().cast(dtype)

    def _clear_cached_op(self) -> None:
        self._compilation.clear()

    def _run(self, args: tuple[Any, ...]) -> Any:
        if args and args[0].__class__ is not NDArray and has_symbol(args):
            return call_symbolic(self, args)
        if STATE.traces and stand_ins() is not None:
            outer = _core.set_trace_scope(self.name)
            try:
                return self.forward(*args)
            finally:
                _core.set_trace_scope(*outer)
        if self._op_hook is not None:
            return symbolic.run_hooked(self, self._op_hook, args)
        if self._active and self._compiles(args):
            self._compilation.untraced = False
            try:
                outputs = self._run_graph(args)
                self._compilation.changes = 0
                return outputs
            except Exception as error:
                if not self._may_run_eagerly(error):
                    raise
                reason = error
            return self._run_eagerly(args, reason)
        if len(args) > 1 and has_symbol(args):
            raise mixed_inputs(self)
        self._resolve_deferred(args)
        return self.forward(*args)

    def _may_run_eagerly(self, error: Exception) -> bool:
        """Return whether the block runs operator by operator after this error of its trace.

        As in 1.x, the program's own ``forward`` of a hybridized block may do what only arrays with
        values allow, and ``hybrid_forward`` may not.
        """
        if _lacks_fixed_graph(error):
            return True
        if forwards_itself(self):
            return self._compilation.untraced
        if isinstance(error, TracedArrayError):
            _core.refuse_traced_calls(str(error))
        return False

    def _run_eagerly(self, args: tuple[Any, ...], reason: Exception) -> Any:
        """Run operator by operator, now and in later calls; children keep their graphs."""
        self._clear_cached_op()
        flat, layout = flatten(args, self.name)
        specs = [(tuple(array.shape), dtype_name(array.dtype)) for array in flat]
        self._compilation.dynamic = flat[0].ctx, layout, specs
        if _lacks_fixed_graph(reason):
            self._resolve_deferred(args)
            return self.forward(*args)
        try:
            outputs = self.forward(*args)
        except Exception:
            self._compilation.dynamic = None  # traces later calls, because only this one may fail
            raise
        if isinstance(reason, ChangedAttributeError):
            self._compilation.changes += 1
            if self._compilation.changes == 1:  # later calls may only read what this call has set
                self._compilation.eager, self._compilation.dynamic = self._compilation.dynamic, None
                return outputs
        warnings.warn(
            f"{self.name}: forward cannot be traced, so the hybridized block runs operator by "
            f"operator; its children keep their graphs ({described_line(reason)})",
            stacklevel=5,
        )
        return outputs

    def _compiles(self, args: tuple[Any, ...]) -> bool:
        """Return whether a call of this hybridized block runs its graph."""
        if self._op_hook is not None or self._compilation.dynamic or _core.anomaly_checks():
            return False
        return not self._compilation.uses_sparse(self, args)

    def _run_graph(self, args: tuple[Any, ...]) -> Any:
        if len(args) > 1 and has_symbol(args):
            raise mixed_inputs(self)
        try:
            flat, layout = flatten(args, f"{self.name}: inputs of a hybridized block")
        except InputError:
            if type(self).forward is HybridBlock.forward:
                raise
            # As in 1.x, an overridden forward may take dicts and numbers and unpack them itself.
            return self.forward(*args)
        if not args:
            return self.forward()  # the base class raises an error about the missing input
        if not flat:
            raise InputError(f"{self.name}: a hybridized block needs an NDArray among its inputs")
        ctx = flat[0].ctx
        graphs = self._compilation.graphs
        compiled = graphs.get((ctx, layout))
        if compiled is None or not compiled.binding.valid:
            compiled = self._bind(compiled, ctx, flat, layout)
        binding = compiled.binding
        outputs = compiled.graph(*flat)
        hooked = self._forward_hooks or self._forward_pre_hooks
        if (
            not hooked
            and not self._checkpointed
            and not WATCH.on
            and compiled.single_output()
            and all(part == LEAF for part in layout)  # type: ignore[union-attr]
            and all(key[0] == ctx for key in graphs)
            and compiled.lives_on(ctx)
        ):
            self._compilation.fast = compiled.graph, binding, len(args)
        return compiled.structured(outputs)

    def _bind(
        self, compiled: Compiled | None, ctx: Context, flat: list[NDArray], layout: Layout
    ) -> Compiled:
        """Return the graph with the current parameters; make it if it is missing or outdated."""
        if compiled is not None and compiled.binding.changed and forwards_itself(self):
            self._clear_cached_op()  # drops all graphs, so that the change is counted once
            compiled = None
            self._compilation.retraces += 1
            if self._compilation.retraces > _MOST_RETRACES:
                self._compilation.changes = 1
                self._compilation.untraced = True
                raise ChangedAttributeError(f"{self.name}: its attributes change between calls")
        binding, params = self._new_binding()
        deferred = None
        if any(param._deferred_init for param in params):
            self._ask_shapes(unflatten(flat, layout))
            deferred = self._infer(params, flat, layout, finish=True)
            binding, params = self._new_binding()  # the parameters have new arrays
        used = [param for param in params if param._data is not None]
        if compiled is None or compiled.stale(used):
            compiled = Compiled(self, used, layout)
            self._compilation.graphs[ctx, layout] = compiled
            if deferred is not None:
                compiled.adopt(deferred)
        compiled.bind(ctx, binding)
        return compiled

    def _resolve_deferred(self, args: tuple[Any, ...]) -> None:
        """Initialize this block's parameters whose shapes follow from this input."""
        if self._compilation.resolved.valid:
            return
        resolved = Binding()
        self._bindings.note(resolved)
        for param in self._reg_params.values():
            param._bindings.note(resolved)
        if any(param._deferred_init for param in self._reg_params.values()):
            flat, layout = flatten(args, f"{self.name}: inputs of a block")
            flat = [nd.cast_storage(array, "default") for array in flat]
            params = list(self.collect_params().values())
            self._ask_shapes(unflatten(flat, layout))
            self._infer(params, flat, layout, finish=True)
        self._compilation.resolved = resolved

    def _ask_shapes(self, args: Sequence[Any]) -> None:
        """Call `infer_shape` if the class overrides it and some shapes are unknown."""
        if type(self).infer_shape is not HybridBlock.infer_shape and not all(
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

    def _infer(
        self, params: list[Parameter], flat: list[NDArray], layout: Layout, finish: bool
    ) -> DeferredTrace:
        """Infer unknown shapes by tracing forward; ``finish`` also allocates the parameters."""
        unknown = sum(not shape_is_known(param.shape) for param in params)
        found: list[tuple[int, ...]] = []
        used: set[int] = set()
        layouts: list[Layout] = []
        traced = None

        def trace(inputs: list[NDArray], arrays: list[NDArray]) -> list[NDArray]:
            try:
                with keeping_attributes(self):
                    outputs, outputs_layout = traced_forward(
                        self, layout, params, inputs, arrays, used
                    )
                layouts.append(outputs_layout)
                return outputs
            finally:
                found[:] = [tuple(array.shape) for array in arrays]

        specs = [(param.local_shape or (), dtype_name(param.dtype)) for param in params]
        try:
            try:
                shapes, traced = _core.infer_params(trace, self.name, flat, specs)
            except DynamicShapeError as error:
                if not _lacks_fixed_graph(error):
                    raise
                # Forward may have switched to the other mode, which a trace does not allow, so this
                # traces again in that mode. No shape depends on the mode.
                with autograd.predict_mode() if autograd.is_training() else autograd.train_mode():
                    shapes, traced = _core.infer_params(trace, self.name, flat, specs)
        except Exception as error:
            of_shapes = isinstance(error, (ShapeError, DynamicShapeError))
            if of_shapes and sum(not shape_is_known(param.shape) for param in params) < unknown:
                # Tries again, because a child's infer_shape has set some shapes.
                return self._infer(params, flat, layout, finish)
            # A parameter that forward does not use may stay unknown.
            is_used = [id(param) in used for param in params]
            lacks = [use and not shape_is_known(shape) for use, shape in zip(is_used, found)]
            if not of_shapes or not found or any(lacks):
                if finish:  # forward will not run, so other ranks must not wait for its collectives
                    _core.refuse_traced_calls(str(error))
                raise
            shapes = found
        for param, shape in zip(params, shapes):
            if not shape_is_known(param.shape) and shape_is_known(shape):
                param._set_local_shape(shape)
        if finish:
            for param in params:
                if param._deferred_init and shape_is_known(param.shape):
                    param._finish_deferred_init()
        return DeferredTrace(params, layouts[0] if layouts else LEAF, traced)

    def infer_type(self, *args: Any) -> None:
        """Give the parameters the type of the first input, as `cast` does.

        Parameters
        ----------
        *args : NDArray or nested lists of them
        """
        array = first_array(args)
        if array is not None:
            self.cast(array.dtype)

    if TYPE_CHECKING:

        def forward(self: HasHybridForward[R_co], *args: Any, **kwargs: Any) -> R_co:
            """Compute the outputs (declaration for type checkers)."""

        def hybrid_forward(self, F: Any, *args: Any, **kwargs: Any) -> NDArray | Any:  # noqa: N803
            """Compute the outputs (declaration for type checkers)."""

    else:

        def forward(self, x, *args):
            """Call `hybrid_forward` with ``F`` and the parameters on the input's context.

            Parameters
            ----------
            x, *args : NDArray or nested lists of them

            Returns
            -------
            NDArray or nested lists of them
            """
            if STATE.traces and stand_ins() is not None:
                self._ask_shapes((x, *args))
                return self.hybrid_forward(symbol, x, *args, **symbolic.traced_params(self))
            # A direct call of forward also runs the graph, except for a call of super().forward in
            # an overridden forward.
            if self._active and type(self).forward is HybridBlock.forward:
                if isinstance(x, NDArray) and self._compiles((x, *args)):
                    return self._dispatch((x, *args))
            self._resolve_deferred((x, *args))
            array = x if isinstance(x, NDArray) else first_array((x, args))
            if array is None:
                raise InputError(
                    f"{self.name}: the inputs of forward must include an NDArray or a Symbol, got "
                    f"{type(x).__name__}; mx.nd.array(...) makes an NDArray"
                )
            context = array.ctx
            params = {
                name: in_class_of(param.data(context), array)
                for name, param in self._reg_params.items()
            }
            if context is current_context() or context == current_context():
                return self.hybrid_forward(nd, x, *args, **params)
            with context:
                return self.hybrid_forward(nd, x, *args, **params)

        def hybrid_forward(self, F, x, *args, **kwargs):  # noqa: N803
            """Compute the outputs with the operators of ``F``; define this or `forward`.

            Parameters
            ----------
            F : module
                ``mx.nd``; ``mx.sym`` while the block is traced or called with symbols.
            x : NDArray
            *args : NDArray
            **kwargs : NDArray
                The block's parameters by attribute name.

            Returns
            -------
            NDArray or nested lists of them
            """
            name = type(self).__name__
            raise NotImplementedError(f"{name} defines neither hybrid_forward nor forward")

    def export(
        self, path: str, epoch: int = 0, remove_amp_cast: bool = True
    ) -> tuple[str, str | None]:
        """Write the network as ``<path>-symbol.json`` and ``<path>-<epoch>.params``.

        Matches ``mxnet.gluon.HybridBlock.export``; 1.9.1 and `SymbolBlock.imports` read the files.
        Inputs are called ``data``, or ``data0``, ``data1``, ... A forward that looks at shapes is
        written for the shapes of its last call, and the loaded network refuses other shapes.

        Parameters
        ----------
        path : str
            Prefix of both file names.
        epoch : int
            Written with four digits.
        remove_amp_cast : bool
            Leave out the casts of mixed precision.

        Returns
        -------
        symbol_file : str
        params_file : str or None
            None for a block without parameters.

        Raises
        ------
        MXNetError
            If the block was not hybridized and run before.
        NotSupportedError
            If forward reads values, or uses operators that symbol files do not support; the error
            names the line of the user's code.
        """
        return exporting.export(self, path, epoch, remove_amp_cast)

    def optimize_for(
        self,
        x: Any,
        *args: Any,
        backend: str | None = None,
        clear: bool = False,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Hybridize and run once, so that the graph is compiled.

        Parameters
        ----------
        x : NDArray
        *args : NDArray
        backend : str, optional
            Accepted and ignored: mxlite always runs its own passes.
        clear, static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size
            As in `hybridize`.
        **kwargs : ignored

        Returns
        -------
        NDArray or nested lists of them
            The outputs of this call.
        """
        self.hybridize(
            True, None, clear, static_alloc, static_shape, inline_limit, forward_bulk_size,
            backward_bulk_size,
        )  # fmt: skip
        return self(x, *args)
