"""Batches for calibration, and the run that collects outputs of layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ... import ndarray as nd
from ..._progress import track
from ...base import TypeError_, ValueError_
from ...context import Context
from ...io import DataBatch, DataDesc, DataIter
from ...ndarray import NDArray
from ...symbol import Group, Symbol
from .graphs import bound

_MOST_DIMENSIONS = 4


class _DataIterWrapper(DataIter):
    """An iterator of batches over an iterable that can start again, such as a Gluon loader.

    An element is an array, or a list of arrays, of which the last one is often a label. If a batch
    has five or more dimensions (several crops of each image), its first two axes are joined. The
    batches of a generator can be read once.
    """

    def __init__(self, calib_data: Iterable[Any]) -> None:
        try:
            batches = iter(calib_data)
            first = next(batches, None)
        except TypeError as error:
            raise TypeError_(
                "quantization: calib_data must be an iterable of batches, got "
                f"{type(calib_data).__name__}"
            ) from error
        if first is None:
            raise ValueError_("quantization: calib_data must have at least one batch, got none")
        arrays = self._arrays(first)
        names = [f"data{i}" for i in range(len(arrays))]
        if len(arrays) < 3:
            names = ["data", *names][: len(arrays)]
        super().__init__(arrays[0].shape[0])
        self.provide_data = [
            DataDesc(name, array.shape, array.dtype) for name, array in zip(names, arrays)
        ]
        self.provide_label: list[DataDesc] = []
        self._data = calib_data
        self._batches: Iterator[Any] = chain([first], batches)

    @staticmethod
    def _arrays(batch: Any) -> list[NDArray]:
        arrays = list(batch) if isinstance(batch, (list, tuple)) else [batch]
        arrays = [a if isinstance(a, NDArray) else nd.array(a) for a in arrays]
        if arrays and len(arrays[0].shape) > _MOST_DIMENSIONS:
            arrays[0] = arrays[0].reshape((-1, *arrays[0].shape[2:]))
        return arrays

    def reset(self) -> None:
        """Start again."""
        self._batches = iter(self._data)

    def next(self) -> DataBatch:
        """Return the next batch."""
        return DataBatch(data=self._arrays(next(self._batches)))


def as_data_iter(calib_data: Any) -> Any:
    """Return a DataIter unchanged, and a DataIter over the batches of another iterable."""
    return calib_data if isinstance(calib_data, DataIter) else _DataIterWrapper(calib_data)


def collect_statistics(
    sym: Symbol,
    params: Mapping[str, NDArray],
    data: DataIter,
    data_names: Sequence[str],
    collector: Any,
    layers: Sequence[str],
    ctx: Context,
    max_num_examples: int | None = None,
    logger: Any = None,
) -> int:
    """Run the float network on batches and give the collector the outputs of the layers.

    Returns
    -------
    int
        Number of examples.

    Raises
    ------
    ValueError
        If there is no batch, or a layer's values are not finite.
    """
    if max_num_examples is not None and max_num_examples < 1:
        raise ValueError_(
            f"quantization: num_calib_examples must be at least 1 or None, got {max_num_examples}"
        )
    internals = sym.get_internals()
    # Collects all outputs with these names: a layer that is called twice has two with one name.
    wanted = set(layers)
    places = [(i, name) for i, name in enumerate(internals.list_outputs()) if name in wanted]
    network = Group([internals[i] for i, _ in places])
    needed = network.list_inputs()
    executor: Any = None
    num_batches = num_examples = 0
    for batch in track(data, "calibration"):
        arrays = batch.data or ()
        inputs = {n: a for n, a in zip(data_names, arrays) if n in needed}
        shapes = {name: array.shape for name, array in inputs.items()}
        if executor is None or any(executor.arg_dict[n].shape != s for n, s in shapes.items()):
            executor = bound(network, ctx, params, shapes)
        for (_, name), output in zip(places, executor.forward(is_train=False, **inputs)):
            collector.collect(name, output)
        num_batches += 1
        num_examples += arrays[0].shape[0] - (batch.pad or 0)
        if logger is not None:
            logger.debug(f"Collected statistics from batch {num_batches}")
        if max_num_examples is not None and num_examples >= max_num_examples:
            break
    if num_batches == 0:
        raise ValueError_(
            "quantization: calib_data must have at least one batch, got none; an iterator that was "
            "used before needs reset()"
        )
    if logger is not None:
        logger.info(
            f"Collected statistics from {num_batches} batches with batch_size={data.batch_size}"
        )
    return num_examples
