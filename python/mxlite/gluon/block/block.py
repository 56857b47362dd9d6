"""Block: the base of all layers and models."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, Union

from ... import _core
from ... import ndarray as nd
from ..._typed_init import TypedInit
from ...base import MXNetError, NeedsInit, TypeError_, ValueError_, unknown_keyword
from ...context import Context
from ...ndarray import NDArray
from ...profiler.memory import WATCH
from ..call_types import HasForward, R_co
from ..parameter import Parameter, ParameterDict
from ..parameter.bindings import PROCESS, Binding, Bindings
from ..parameter.cast_check import check_cast
from ..parameter.files import load_into, load_named, strip_kind
from .arity import arity_error
from .checkpointing import run_checkpointed
from .error_layers import add_layer
from .hooks import HookHandle
from .left_out import warn_of_hidden_blocks, warn_of_left_out
from .model_files import load_model, save_model
from .scope import BlockScope
from .summary import indented, summary_html, summary_text, tree

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Block"]

_Contexts = Union[Context, Sequence[Context], None]


class Block(NeedsInit, TypedInit):
    """A part of a model: it has parameters, children and a ``forward``.

    Assigning a Block or a Parameter to an attribute registers it.

    Matches ``mxnet.gluon.Block``.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the parameter names; default is the class name and a counter.
    params : ParameterDict, optional
        Parameters to share with another block: ``other.params`` or ``other.collect_params()``.
    """

    _set_by_init = "_forward_pre_hooks"
    _is_container = False  # True for containers such as Sequential, which summary() does not list
    _checkpointed = False
    # Context, parameters and states of the last checkpointed call; unused once the binding expires.
    _checkpoint_arrays: tuple[Binding, Context, list[NDArray], list[NDArray]] | None = None

    def __init__(
        self, prefix: str | None = None, params: ParameterDict | None = None, **unknown: Any
    ) -> None:
        if unknown:
            raise unknown_keyword(type(self), next(iter(unknown)))
        self._bindings = Bindings()
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix[:-1] if self._prefix.endswith("_") else self._prefix
        self._scope = BlockScope(self)
        self._children: dict[str, Block] = {}
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: dict[int, Callable[..., Any]] = {}
        self._forward_pre_hooks: dict[int, Callable[..., Any]] = {}

    def __repr__(self) -> str:
        lines = [
            f"  ({key}): {indented(repr(child))}"
            for key, child in self.__dict__.items()
            if isinstance(child, Block)
        ]
        return tree(type(self).__name__, lines)

    def _repr_html_(self) -> str:
        return summary_html(self)

    def __setattr__(self, name: str, value: Any) -> None:
        existing = self.__dict__.get(name)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            raise TypeError_(
                f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not "
                "allowed."
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if self._reg_params.get(name, value) is not value:
                raise ValueError_(
                    f"Overriding Parameter attribute {name} is not allowed. If you want to share "
                    "parameters between blocks, please set `params` at Block construction instead."
                )
            if name not in self._reg_params:
                self._reg_params[name] = value
                self._bindings.expire(retrace=True)
        super().__setattr__(name, value)

    def _alias(self) -> str:
        """Return the lower-case class name, from which the automatic prefix is made."""
        return type(self).__name__.lower()

    @property
    def prefix(self) -> str:
        """Prefix of the names of parameters and children."""
        return self._prefix

    @property
    def name(self) -> str:
        """Prefix without its last underscore."""
        return self._name

    def name_scope(self) -> BlockScope:
        """Return the scope in which children get this block's prefix.

        Returns
        -------
        BlockScope
            Use it as ``with self.name_scope(): ...``.
        """
        return self._scope

    @property
    def params(self) -> ParameterDict:
        """The block's own parameters, without those of its children."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return the parameters of this block and all its children.

        Parameters
        ----------
        select : str, optional
            Regular expression that names must begin with, such as ``".*weight|.*bias"``.
        """
        found = ParameterDict(self._params.prefix)
        self._collect(found, re.compile(select) if select else None)
        return found

    def _collect(self, found: ParameterDict, pattern: re.Pattern[str] | None) -> None:
        warn_of_hidden_blocks(self, Block)
        if pattern is None:
            found.update(self._params)
        else:
            chosen = ParameterDict()
            chosen._params = {k: v for k, v in self._params.items() if pattern.match(k)}
            found.update(chosen)
        for child in self._children.values():
            child._collect(found, pattern)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Return parameters by structural name, such as ``features.0.weight``."""
        dot = prefix + "." if prefix else ""
        found = {dot + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(dot + name))
        return found

    # -- files -----------------------------------------------------------------------------------

    def save_parameters(self, filename: str | os.PathLike[str], deduplicate: bool = False) -> None:
        """Save all parameters under their structural names.

        Matches ``mxnet.gluon.Block.save_parameters``; 1.9.1 reads the file.

        Parameters
        ----------
        filename : str or path
            File to write. An existing file is replaced only after everything was written. A name
            that ends with ``.safetensors`` selects the safetensors format, which stores a shared
            parameter once and its other names as aliases.
        deduplicate : bool
            Save a shared parameter once.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            last = {id(param): name for name, param in params.items()}
            params = {name: param for name, param in params.items() if last[id(param)] == name}
        arrays = {param: param._reduce() for param in dict.fromkeys(params.values())}
        nd.save(filename, {name: arrays[param] for name, param in params.items()})

    def load_parameters(
        self,
        filename: str | os.PathLike[str],
        ctx: _Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load parameters saved by `save_parameters`, ``ParameterDict.save`` or ``export``.

        The file may be in the safetensors format, or the index of such files.

        Names may be structural (``features.0.weight``) or prefixed (``net0_conv0_weight``, also
        with another net's counter), each with or without ``arg:`` and ``aux:``.

        Parameters
        ----------
        filename : str or path
        ctx : Context or list of Context, optional
            Context of uninitialized parameters; default is the CPU.
        allow_missing : bool
            Keep the values of parameters that the file does not have.
        ignore_extra : bool
            Ignore names that this block does not have.
        cast_dtype : bool
            Convert types that differ.
        dtype_source : {'current', 'saved'}
            Whether to convert to the type of the parameter or to that of the file.

        Raises
        ------
        ParameterNameError
            For missing or extra names; the message suggests near ones.
        FileFormatError
            If the file is truncated, damaged or foreign.
        MissingFileError
            If there is no such file.
        """
        arrays = {strip_kind(name): value for name, value in load_named(filename).items()}
        params, renamed = self._match_names(arrays)
        load_into(
            params, renamed, f"file {os.fspath(filename)!r}", ctx, allow_missing, ignore_extra,
            cast_dtype, dtype_source,
        )  # fmt: skip

    def _match_names(
        self, arrays: dict[str, NDArray]
    ) -> tuple[dict[str, list[Parameter]], dict[str, NDArray]]:
        """Return the parameters by name, and the file's arrays renamed to match most of them."""
        structural = {name: [p] for name, p in self._collect_params_with_prefix().items()}
        full = {name: [param] for name, param in self.collect_params().items()}
        dotted = not full or any("." in name for name in arrays)
        known, renamed = (structural, arrays) if dotted else (full, arrays)
        best = -1
        for params, old, new in self._name_changes(structural, full, arrays):
            changed = {new + name[len(old) :]: value for name, value in arrays.items()}
            score = sum(name in params for name in changed)
            if score > max(best, 0):
                best, known, renamed = score, params, changed
        return known, renamed

    def _name_changes(
        self,
        structural: dict[str, list[Parameter]],
        full: dict[str, list[Parameter]],
        arrays: dict[str, NDArray],
    ) -> list[tuple[dict[str, list[Parameter]], str, str]]:
        """Return candidate renamings: parameters by name, prefix in the file, its replacement."""
        common = os.path.commonprefix(list(arrays))
        changes = [(structural, "", ""), (full, "", ""), (full, "", self.prefix)]
        for position, letter in enumerate(common):
            if letter == "_":
                changes.append((full, common[: position + 1], self.prefix))
        return changes

    def save_params(self, filename: str | os.PathLike[str]) -> None:
        """Save parameters under their full names without this block's prefix (old interface)."""
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self,
        filename: str | os.PathLike[str],
        ctx: _Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        """Load parameters; the old name of `load_parameters`."""
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Save structure and parameters as ``<prefix>-model.json`` and ``<prefix>-model.params``.

        Parameters
        ----------
        prefix : str
            Prefix of both paths.
        """
        save_model(self, prefix)

    def load(self, prefix: str) -> None:
        """Load what `save` wrote; blocks are matched by position, so their names may differ."""
        load_model(self, prefix)

    # -- children and hooks ----------------------------------------------------------------------

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child; assigning a Block to an attribute does this, too.

        Parameters
        ----------
        block : Block
        name : str, optional
            Structural name; default is the number of children so far.

        Raises
        ------
        TypeError
            If ``block`` is not a Block.
        """
        if not isinstance(block, Block):
            cure = "make it a Block"
            if isinstance(block, (list, tuple)):
                cure = "give the blocks one by one, as net.add(*blocks)"
            elif isinstance(block, type):
                cure = f"create it: {block.__name__}(...)"
            elif callable(block):
                cure = "wrap a function: nn.Lambda(function), nn.HybridLambda('relu')"
            raise TypeError_(
                f"{type(self).__name__}: child must be a Block, got a "
                f"{type(block).__name__}; {cure}"
            )
        self._children[str(len(self._children)) if name is None else name] = block
        self._bindings.expire(retrace=True)

    def register_forward_pre_hook(self, hook: Callable[[Block, Any], Any]) -> HookHandle:
        """Call ``hook(block, inputs)`` before each forward.

        Returns
        -------
        HookHandle
            Its ``detach`` removes the hook.
        """
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        self._bindings.expire()  # otherwise the fast path of __call__ would skip the hook
        return handle

    def register_forward_hook(self, hook: Callable[[Block, Any, Any], Any]) -> HookHandle:
        """Call ``hook(block, inputs, outputs)`` after each forward.

        Returns
        -------
        HookHandle
            Its ``detach`` removes the hook.
        """
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        self._bindings.expire()
        return handle

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """Call ``callback(tensor_name, op_name, array)`` for each operator's outputs.

        From then on the block and its children run operator by operator, hybridized or not, unless
        they are part of a hybridized block that has no hook.

        Matches ``mxnet.gluon.Block.register_op_hook``, which calls hooks of hybridized blocks only,
        with bytes and handles; operators of backward are not shown.

        Parameters
        ----------
        callback : callable
            Gets names such as ``dense0_fullyconnected0_output`` and ``FullyConnected``; None ends
            the calls.
        monitor_all : bool
            Call it for inputs as well, before the outputs.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Call ``fn`` on every child, recursively, and finally on this block.

        Returns
        -------
        Block
            This block.
        """
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def initialize(
        self,
        init: Any = None,
        ctx: _Contexts = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize the parameters of this block and its children.

        Parameters
        ----------
        init : Initializer or str, optional
            For parameters without an initializer of their own; default is `Uniform()`.
        ctx : Context or list of Context, optional
            One copy is made on each; default is the current context.
        verbose : bool
            Log each parameter.
        force_reinit : bool
            Initialize parameters again that already have a value.
        """
        params = self.collect_params()
        warn_of_left_out(type(self).__name__, self._collect_params_with_prefix(), params)
        params.initialize(init, ctx, verbose, force_reinit)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children that support it, or undo that; this block itself stays eager.

        Parameters
        ----------
        active : bool
        **kwargs
            As in `HybridBlock.hybridize`.
        """
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def cast(self, dtype: Any) -> None:
        """Convert the parameters of this block and its children.

        Parameters
        ----------
        dtype : str or numpy type
        """
        check_cast(self, dtype)
        for child in self._children.values():
            child.cast(dtype)
        for param in self._params.values():
            param.cast(dtype)

    if TYPE_CHECKING:

        def __call__(self: HasForward[R_co], *args: Any) -> R_co:
            """Run the block (declaration for type checkers)."""
            raise NotImplementedError

        def forward(self, *args: Any, **kwargs: Any) -> NDArray | Any:
            """Compute the outputs (declaration for type checkers)."""

    else:

        def __call__(self, *args):
            """Run the hooks and `forward`; errors name the layer, its path and its inputs."""
            try:
                for hook in self._forward_pre_hooks and list(self._forward_pre_hooks.values()):
                    hook(self, args)
                plain = not (self._checkpointed or WATCH.on)
                outputs = self._run(args) if plain else self._dispatch(args)
                for hook in self._forward_hooks and list(self._forward_hooks.values()):
                    hook(self, args, outputs)
                return outputs
            except MXNetError as error:
                add_layer(error, self, args)
                raise
            except TypeError as error:
                raise arity_error(error, self, args) or error  # noqa: B904 - it hides its cause

        def forward(self, *args):
            """Compute the outputs; every block class defines this method.

            Parameters
            ----------
            *args : NDArray or nested lists of them

            Returns
            -------
            NDArray or nested lists of them
            """
            raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def _run(self, args: tuple[Any, ...]) -> Any:
        return self.forward(*args)

    def checkpoint(self, active: bool = True) -> Self:
        """Save only the inputs of this block for backward, which then runs forward again.

        The activations inside the block use no memory, at the cost of one more forward. Gradients
        have the same bits: the second forward draws the same random numbers and does not update
        running statistics again. Works for hybridized blocks, parts of a hybridized block and
        eager blocks, and inside other blocks with checkpoints.

        Forward must compute the same values both times: it may use random operators of mxlite,
        but no random numbers of Python or NumPy, and it must not change attributes that it reads.
        Hooks of children are called both times. Inputs and parameters must not change before
        backward; otherwise backward raises.

        Parameters
        ----------
        active : bool
            False: keep the activations, as by default.

        Returns
        -------
        Block
            This block.
        """
        self._checkpointed = bool(active)
        self._bindings.expire(retrace=True)
        return self

    def _dispatch(self, args: tuple[Any, ...]) -> Any:
        """Run the block, checkpointed or not; attribute memory to it while that is profiled."""
        watched = WATCH.on
        if watched:
            _core.memory_scope_enter(self.name)
        try:
            if self._checkpointed and _core.is_recording():
                return run_checkpointed(self, args)
            return self._run(args)
        finally:
            if watched:
                _core.memory_scope_leave()

    def _new_binding(self) -> tuple[Binding, list[Parameter]]:
        """Return a binding to this block, its descendants and parameters; and the parameters."""
        binding = Binding()
        PROCESS.note(binding)
        parts: list[Block] = [self]
        for part in parts:
            part._bindings.note(binding)
            parts.extend(part._children.values())
        params = list(self.collect_params().values())
        for param in params:
            param._bindings.note(binding)
        return binding, params

    def summary(self, *inputs: Any) -> None:
        """Print layers, output shapes and numbers of parameters.

        Parameters
        ----------
        *inputs : NDArray or nested lists of them
            One batch; the block is run on it, and must not be hybridized.
        """
        print(summary_text(self, *inputs))
