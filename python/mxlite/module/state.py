"""The state of a `Module`: names, parameters, files."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from typing import Any

from .. import ndarray as nd
from .._files.saving import replacing_file
from ..base import ShapeError, ValueError_
from ..context import cpu
from ..initializer import InitDesc
from ..io import DataDesc
from ..kvstore.base import read_states
from ..ndarray import NDArray
from ..ndarray.array_like import host_array
from .base_module import BaseModule
from .checkpoint_files import save_checkpoint
from .common import DEFAULT_INITIALIZER, ModuleStateError


class MissingParameterError(ValueError_):
    """A parameter has no value."""


class ModuleState(BaseModule):
    """The part of `Module` that handles names and parameters."""

    _data_names: list[str]
    _label_names: list[str]
    _param_names: list[str]
    _aux_names: list[str]
    _output_names: list[str]
    _arg_params: dict[str, NDArray] | None
    _aux_params: dict[str, NDArray] | None
    _params_dirty: bool
    _kvstore: Any
    _updater: Any
    _update_on_kvstore: bool
    _exec_group: Any
    _data_shapes: Any
    _label_shapes: Any

    def save_checkpoint(
        self,
        prefix: str,
        epoch: int,
        save_optimizer_states: bool = False,
        remove_amp_cast: bool = True,
    ) -> None:
        """Save symbol, parameters and, on request, the optimizer's states."""
        args, aux = self.get_params()
        save_checkpoint(prefix, epoch, self.symbol, args, aux, remove_amp_cast)
        if save_optimizer_states:
            path = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(path)
            logging.info('Saved optimizer state to "%s"', path)

    def save_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Save the optimizer's states."""
        self._need("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
            return
        with replacing_file(os.fspath(fname)) as stream:
            stream.write(self._updater.get_states())

    def load_optimizer_states(self, fname: str | os.PathLike[str]) -> None:
        """Load the optimizer's states, also those that MXNet 1.x pickled."""
        self._need("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            self._updater.set_states(read_states(fname))

    # -- properties ------------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._output_names)

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data."""
        self._need("binded")
        return list(self._data_shapes)

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels; None if there are no labels."""
        self._need("binded")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Pairs (name, shape) of the outputs."""
        self._need("binded")
        return self._exec_group.get_output_shapes()

    # -- parameters ------------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return arguments and auxiliary states by name: copies on the CPU.

        They are the same objects at every call.
        """
        self._need("params_initialized")
        assert self._arg_params is not None
        assert self._aux_params is not None
        if self._params_dirty:
            self._sync_params_from_devices()
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        self._exec_group.get_params(self._arg_params, self._aux_params)
        self._params_dirty = False

    def init_params(
        self,
        initializer: Any = DEFAULT_INITIALIZER,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set the initial values of the parameters.

        Parameters
        ----------
        initializer : Initializer, optional
            Initializer of parameters that are not given.
        arg_params, aux_params : dict of str to NDArray, optional
        allow_missing : bool
            Parameters that the dicts do not have get values from ``initializer``.
        force_init : bool
            Initialize even if there are values.
        allow_extra : bool
            Ignore names that the symbol does not have.

        Raises
        ------
        RuntimeError, ValueError
            For missing parameters and wrong shapes.
        """
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.",
                UserWarning,
                stacklevel=2,
            )
            return
        if not self.binded:
            raise ModuleStateError("call bind before initializing the parameters")
        group = self._exec_group
        attrs = self._symbol.attr_dict()
        new: list[dict[str, NDArray]] = []
        for names, blocks, given, old in (
            (self._param_names, group.param_arrays, arg_params, self._arg_params),
            (self._aux_names, group.aux_arrays, aux_params, self._aux_params),
        ):
            values: dict[str, NDArray] = {}
            for name, arrays in sorted(zip(names, blocks), key=lambda pair: pair[0]):
                first = arrays[0]
                array = (old or {}).get(name)
                if array is None or array.shape != first.shape or array.dtype != first.dtype:
                    array = nd.sparse.zeros(first.stype, first.shape, cpu(), first.dtype)
                self._fill(name, array, given, initializer, allow_missing, attrs)
                values[name] = array
            new.append(values)
        self._arg_params, self._aux_params = new
        self.params_initialized = True
        self._params_dirty = False
        group.set_params(self._arg_params, self._aux_params, allow_extra)

    @staticmethod
    def _fill(
        name: str,
        array: NDArray,
        given: Mapping[str, NDArray] | None,
        initializer: Any,
        allow_missing: bool,
        attrs: Mapping[str, Mapping[str, str]],
    ) -> None:
        if given is not None and name in given:
            value = given[name]
            if value is array:
                return
            if not isinstance(value, NDArray):
                value = host_array(value, f"init_params: {name}", array.dtype)
            if tuple(value.shape) != tuple(array.shape):
                raise ShapeError(
                    f"init_params: {name} must have shape {tuple(array.shape)}, got "
                    f"{tuple(value.shape)}"
                )
            array[:] = value.tostype(array.stype) if isinstance(value, NDArray) else value
            return
        if given is not None and not allow_missing:
            raise MissingParameterError(f"{name} is not presented")
        if initializer is not None:
            initializer(InitDesc(name, dict(attrs.get(name, {}))), array)

    def set_params(
        self,
        arg_params: Any,
        aux_params: Any,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters, see `BaseModule.set_params`."""
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        self._need("binded")
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. set_params call ignored.",
                UserWarning,
                stacklevel=2,
            )
            return
        self._exec_group.set_params(arg_params, aux_params, allow_extra)
        if self._arg_params is None:
            self._arg_params, self._aux_params = {}, {}
        self._params_dirty = True
        self.params_initialized = True
