"""Embedding tables whose rows are divided among ranks, with sparse updates of their own."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core, autograd
from ... import ndarray as nd
from ... import optimizer as optimizers
from ..._typed_init import check_sizes
from ...base import FileFormatError, MXNetError, TypeError_, ValueError_
from ...comm.groups import group_of, ranks_text
from ...comm.submitting import contiguous, submit, waited
from ...context import Context
from ...gluon.block import Block
from ...ndarray import NDArray
from ...ndarray.serialization import dtype_name
from .cached_rows import CachedRows

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...gluon.call_types import BlockOptions

__all__ = ["ShardedEmbedding"]

_POLICIES = ("error", "clip", "hash")
_COMBINERS = (None, "sum", "mean")
_ROWS_OF_FILE = 1 << 18
_HOST = Context("cpu", 0)
_FILE_NAME = re.compile(r"(\d+)-of-(\d+)\.(\d+)-of-(\d+)\.params")


class ShardedEmbedding(Block):
    """Rows of a table chosen by id; rank ``id % P`` of P ranks has the row of an id.

    The optimizer belongs to the table: `step` sums the gradients of the batch and updates the rows
    that it used, and no others (lazy updates). Time and memory of a step do not depend on the
    number of rows. Each rank has its own ids; ranks exchange distinct ids, their rows and their
    gradients. All ranks of the set make the same calls; ids may be empty.

    The table is no `Parameter`: `save` and `load` are its files, for any number of ranks.

    Parameters
    ----------
    rows : int or None
        Rows of the whole table; ids are 0 to rows - 1. None: the table starts empty and grows,
        and ids are any integers from 0 on.
    dim : int
        Length of each row of the weight.
    process_set : ProcessSet, int, str or None
        The ranks; None for all of the job. Usually the name of an axis of the current mesh.
    optimizer : str or Optimizer
        SGD, AdaGrad, Adam or Ftrl. Their states are float32 whatever the dtype of the rows is.
    optimizer_params : dict, optional
        Arguments of the optimizer if it is given by name.
    dtype : str
        ``float32``, ``float16`` or ``bfloat16``, in memory and between ranks; results are float32.
    policy : str
        What happens with ids outside of the table: ``error``, ``clip`` (to the nearest row) or
        ``hash`` (all ids are hashed to rows).
    combiner : str, optional
        ``sum`` or ``mean``: `forward` takes bags of ids and returns a row for each bag.
    init_scale : float
        Initial values are uniform in ``[-init_scale, init_scale)``; they depend on ``seed``, id and
        column, not on the number of ranks.
    seed : int
        Seed of the initial values, at least 0; all ranks must give the same seed.
    capacity : int, optional
        Maximum number of rows of a growing table on a rank; default: as many as memory holds.
    evict : bool
        A full growing table drops an eighth of its rows, those least used, instead of raising.
    ctx : Context, optional
        Where results are; default: the host, which has the table.
    cache_rows : int, optional
        Maximum number of rows that ``ctx`` keeps, in float32 and with their optimizer states. The
        least recently used rows return to the host's table. The rows of a batch must fit, and the
        table must not grow.

    Raises
    ------
    MemoryError
        The rows do not fit the memory of the rank; the error says how many do.

    Examples
    --------
    >>> table = ShardedEmbedding(1000, 16, optimizer="adam")
    >>> with mx.autograd.record():
    ...     loss = table(mx.nd.array([[1, 5], [5, 9]])).sum()
    >>> loss.backward()
    >>> table.step(batch_size=2)
    """

    def __init__(
        self,
        rows: int | None,
        dim: int,
        process_set: Any = None,
        optimizer: Any = "adam",
        optimizer_params: dict[str, Any] | None = None,
        dtype: Any = "float32",
        policy: str = "error",
        combiner: str | None = None,
        init_scale: float = 0.05,
        seed: int = 0,
        capacity: int | None = None,
        evict: bool = False,
        ctx: Context | None = None,
        cache_rows: int | None = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        who = type(self).__name__
        self._dtype = dtype_name(dtype)
        check_sizes(who, 1, dim=dim)
        for name, size in (("rows", rows), ("capacity", capacity), ("cache_rows", cache_rows)):
            if size is not None:
                check_sizes(who, 1, **{name: size})
        given: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
            ("policy", policy, _POLICIES),
            ("combiner", combiner, _COMBINERS),
            ("dtype", self._dtype, ("float32", "float16", "bfloat16")),
        )
        for name, value, known in given:
            if value not in known:
                expected = ", ".join(map(repr, known))
                raise ValueError_(f"{who}: {name} must be one of {expected}, got {value!r}")
        if rows is None and policy != "error":
            raise ValueError_(
                f"{who}: policy must be 'error' for a table that grows, got {policy!r}"
            )
        if rows is not None and (evict or capacity is not None):
            raise ValueError_(
                f"{who}: capacity and evict must be given only for tables that grow (rows=None)"
            )
        if rows is None and cache_rows is not None:
            raise ValueError_(f"{who}: cache_rows must be None if rows is None, got {cache_rows}")
        self._ctx, self._cache_rows = ctx or _HOST, cache_rows
        self._rows, self._dim, self._policy, self._combiner = rows, dim, policy, combiner
        self._scale, self._seed = float(init_scale), int(seed)
        self._growth = (-1 if capacity is None else capacity, bool(evict))
        self._group = group_of(who, process_set)
        self._optimizer = self._checked(optimizers.create(optimizer, **(optimizer_params or {})))
        self._rescale = self._optimizer.rescale_grad
        state = self._optimizer.create_state(0, nd.zeros((1, 1)))
        self._op = self._optimizer._operator(state)[0]
        self._states = _core.states_of_row_rule(self._op)
        self._pending: list[tuple[Any, Any, NDArray]] = []  # plans of both sides, result
        self._table = self._make_table()

    def _checked(self, optimizer: Any) -> optimizers.fused.FusedOptimizer:
        if not isinstance(optimizer, optimizers.fused.FusedOptimizer):
            raise TypeError_(
                f"{type(self).__name__}: the optimizer must be SGD, AdaGrad, Adam or Ftrl, got "
                f"{type(optimizer).__name__}"
            )
        return optimizer

    def _make_table(self) -> Any:
        if self._cache_rows is None:
            return self._host_table(self._dim, self._dtype, self._states, self._scale)
        states = self._states * self._dim
        return CachedRows(
            f"{type(self).__name__} {self.name}",
            self._host_table(self._dim, self._dtype, 0, self._scale),
            self._host_table(states, "float32", 0, 0.0) if states else None,
            self._optimizer, self._cache_rows, self._dim, self._dtype, self._ctx,
        )  # fmt: skip

    def _host_table(self, dim: int, dtype: str, states: int, scale: float) -> Any:
        group = self._group
        return _core.EmbeddingTable(
            self.name, self._whole, group.size, group.index, dim, dtype, states, *self._growth,
            scale, self._seed,
        )  # fmt: skip

    @property
    def _whole(self) -> int:
        return -1 if self._rows is None else self._rows

    @property
    def size(self) -> int:
        """Number of rows on this rank; of a growing table, those that it holds."""
        return int(self._table.size)

    @property
    def row_bytes(self) -> int:
        """Bytes of memory of a row with its optimizer states."""
        return int(self._table.row_bytes)

    @property
    def optimizer(self) -> optimizers.Optimizer:
        """The table's optimizer."""
        return self._optimizer

    def forward(self, ids: NDArray, offsets: NDArray | None = None) -> NDArray:
        """Look up rows.

        Parameters
        ----------
        ids : NDArray
            Any shape and numeric dtype. With a combiner a vector, of all bags in turn.
        offsets : NDArray, optional
            With a combiner: position of the first id of each bag, which has at least one id.

        Returns
        -------
        NDArray
            float32 ``ids.shape + (dim,)``, or ``(bags, dim)`` with a combiner.

        Raises
        ------
        IndexError
            An id is outside of the table and the policy is ``error``.
        ValueError
            A bag is empty, or offsets do not ascend.
        MemoryError
            A growing table is full.
        MXNetError
            Another rank has failed.
        """
        if (offsets is None) is not (self._combiner is None):
            raise ValueError_(
                f"{type(self).__name__}: offsets must be given if and only if there is a combiner"
            )
        records = autograd.is_recording()
        with autograd.pause():
            plan, failure = None, None
            try:
                plan = self._plan(ids, offsets)
            except MXNetError as error:
                if self._group.size == 1:
                    raise
                failure = error
            if self._group.size == 1:
                result, owned = self._local_rows(plan, records), plan
            else:
                result, owned = self._exchanged_rows(plan, failure, records)
            assert plan is not None
            shape = (plan.outputs,) if offsets is not None else tuple(ids.shape)
            result = result.reshape((*shape, self._dim)).as_in_context(self._ctx)
        if records:
            result.attach_grad()
            self._pending.append((plan, owned, result))
        return result

    def step(self, batch_size: int) -> None:
        """Update the rows that were looked up since the last step, as ``Trainer.step``.

        Gradients are divided by ``batch_size`` and the number of ranks. Rows without a gradient
        from backward count as used with gradient 0.

        Parameters
        ----------
        batch_size : int
            Samples of this rank, at least 1.
        """
        check_sizes(f"{type(self).__name__}.step", 1, batch_size=batch_size)
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        optimizer = self._optimizer
        optimizer.rescale_grad = self._rescale / (batch_size * self._group.size)
        parts = [self._to_owners(*entry) for entry in pending]
        plan, grad = parts[0]
        if len(parts) > 1:
            sums = [plan.reduce(_on_host(grad), self._dim) for plan, grad in parts]
            grad = nd.concat(*sums, dim=0)
            plan = self._plan_of_own(nd.concat(*(plan.ids() for plan, _ in parts), dim=0))
        if self._cache_rows is not None:
            self._table.update(plan, grad)
            return
        (rate,), (decay,), (count,) = optimizer._begin_updates([0])
        hyper = {**optimizer._all_options(), "lr": rate, "wd": decay, "t": count}
        self._table.update(plan, _on_host(grad), self._op, hyper)

    def _plan(self, ids: NDArray, offsets: NDArray | None) -> Any:
        plan = _core.EmbeddingPlan(
            self.name, self._whole, self._policy, self._group.size, _on_host(ids)
        )
        if offsets is not None:
            plan.make_bags(self.name, _on_host(offsets).astype("int64"), self._combiner == "mean")
        return plan

    def _plan_of_own(self, ids: NDArray) -> Any:
        return _core.EmbeddingPlan(self.name, self._whole, "error", self._group.size, ids)

    def _local_rows(self, plan: Any, records: bool) -> NDArray:
        if self._combiner is None:
            return self._table.gather(plan, records, True)
        rows = self._table.gather(self._plan_of_own(plan.ids()), records, True)
        return plan.expand(_on_host(rows))

    def _exchanged_rows(
        self, plan: Any, failure: MXNetError | None, records: bool
    ) -> tuple[NDArray, Any]:
        """Return the result, and the plan of the ids that all ranks want from this one."""
        size = self._group.size
        counts = [1] * size if plan is None else plan.counts
        # A rank that has failed sends -1, so that the other ranks do not wait for it.
        wanted = nd.full((size,), -1, dtype="int64") if plan is None else plan.ids()
        received, wanted_counts = self._all_to_all(wanted, counts, "ids")
        values = received.asnumpy()
        if failure is not None:
            raise failure
        begins = np.cumsum([0, *wanted_counts])
        failed = [
            rank
            for rank, begin, end in zip(self._group.ranks, begins, begins[1:])
            if end > begin and values[begin] < 0
        ]
        if failed:
            raise MXNetError(
                f"{type(self).__name__} {self.name}: the ids of {ranks_text(failed)} are wrong; "
                "see the error there"
            )
        owned = self._plan_of_own(received)
        try:
            rows = self._table.gather(owned, records, False)
        except MXNetError as error:
            failure = error
            rows, wanted_counts = nd.zeros((0, self._dim), dtype=self._dtype), [0] * size
        rows, got = self._all_to_all(rows, wanted_counts, "rows")
        if failure is not None:
            raise failure
        lacking = [r for r, n, m in zip(self._group.ranks, counts, got) if n != m]
        if lacking:
            raise MXNetError(
                f"{type(self).__name__} {self.name}: {ranks_text(lacking)} cannot provide rows; "
                "see the error there"
            )
        return plan.expand(rows), owned

    def _to_owners(self, plan: Any, owned: Any, result: NDArray) -> tuple[Any, NDArray]:
        """Return the plan of this rank's rows and the gradients of its positions."""
        grad = result.grad
        assert grad is not None
        if self._group.size == 1:
            return plan, grad
        sums = plan.reduce(_on_host(grad), self._dim)
        return owned, self._all_to_all(sums, plan.counts, "gradients")[0]

    def _all_to_all(self, rows: NDArray, counts: list[int], what: str) -> tuple[NDArray, list[int]]:
        name = f"alltoall.{self.name}.{what}"
        pending = submit(
            "alltoall", [name], [rows], [], set=self._group.number, splits=list(counts)
        )
        output = waited(pending, [rows], rows)[0]
        return output, list(pending.received_splits)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write this rank's rows and states to files of a folder; all ranks call it.

        Rows that have never been updated are not written. The folder must be new for each save.

        Parameters
        ----------
        folder : str or PathLike
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        table, group = self._table, self._group
        pieces = max(1, -(-table.slots // _ROWS_OF_FILE))
        about = np.frombuffer(json.dumps(self._about()).encode(), np.uint8)
        names = ("ids", "weights", "states", "uses")
        for piece in range(pieces):
            rows = dict(zip(names, table.read(piece * _ROWS_OF_FILE, _ROWS_OF_FILE)))
            kept = {name: array for name, array in rows.items() if array.size}
            kept["about"] = nd.array(about, dtype="uint8")
            kept["updates"] = nd.array([self._optimizer.num_update], dtype="int64")
            file = path / f"{group.index}-of-{group.size}.{piece}-of-{pieces}.params"
            nd.save(str(file), kept)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Replace the table by a saved one, of any number of ranks; each rank reads all files.

        Parameters
        ----------
        folder : str or PathLike

        Raises
        ------
        FileFormatError
            Files are missing, or are those of another table.
        """
        path = Path(folder)
        files = sorted(path.glob("*.params"))
        self._check_complete(path, files)
        self._table = None  # frees its memory
        self._pending = []
        self._table = self._make_table()
        empty = {
            "ids": nd.zeros((0,), dtype="int64"),
            "weights": nd.zeros((0, self._dim), dtype=self._dtype),
            "states": nd.zeros((0, self._states, self._dim)),
            "uses": nd.zeros((0,), dtype="int64"),
        }
        updates = 0
        for file in files:
            found = nd.load(str(file))
            if not isinstance(found, dict) or not {"about", "updates"} <= found.keys():
                raise FileFormatError(
                    f"{type(self).__name__}: {file} must be a file of a saved table"
                )
            about = json.loads(found["about"].asnumpy().tobytes())
            if about != self._about():
                differing = [k for k, v in self._about().items() if about.get(k) != v]
                expected = ", ".join(f"{k}={about.get(k)!r}" for k in differing)
                raise FileFormatError(
                    f"{type(self).__name__} {self.name}: the options must be those of the table "
                    f"in {file}, {expected}; make a table with these values"
                )
            updates = max(updates, int(found["updates"].asnumpy()[0]))
            rows = {name: found.get(name, none) for name, none in empty.items()}
            if rows["ids"].size:
                self._table.write(*rows.values())
        self._optimizer.num_update = updates
        self._optimizer._index_update_count[0] = updates

    def _about(self) -> dict[str, Any]:
        """Return what a saved table and this one must have in common."""
        return {
            "rows": self._rows, "dim": self._dim, "dtype": self._dtype, "operator": self._op,
            "init_scale": self._scale, "seed": self._seed,
        }  # fmt: skip

    def _check_complete(self, path: Path, files: list[Path]) -> None:
        found = [_FILE_NAME.fullmatch(file.name) for file in files]
        parts = [tuple(map(int, match.groups())) for match in found if match]
        ranks = {of for _, of, _, _ in parts}
        pieces = {rank: of for rank, _, _, of in parts}
        count = max(ranks, default=0)
        wanted = {
            (r, count, p, pieces.get(r, 1)) for r in range(count) for p in range(pieces.get(r, 1))
        }
        if not parts or len(ranks) > 1 or set(parts) != wanted or len(parts) != len(files):
            raise FileFormatError(
                f"{type(self).__name__}: folder {str(path)!r} must have the files of one saved "
                f"table, got {len(files)} files of {sorted(ranks)} ranks"
            )

    def __repr__(self) -> str:
        rows = "grows" if self._rows is None else self._rows
        return (
            f"{type(self).__name__}({rows} -> {self._dim}, {self._dtype}, "
            f"rank {self._group.index} of {self._group.size})"
        )


def _on_host(array: NDArray) -> NDArray:
    """Return a contiguous array in the memory of the host."""
    if not isinstance(array, NDArray):
        raise TypeError_(f"ShardedEmbedding: ids must be an NDArray, got {type(array).__name__}")
    return contiguous(array.as_in_context(_HOST))
