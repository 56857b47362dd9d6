"""Collective operators in a process that has joined no job: a group of one rank."""

from __future__ import annotations

from op_table import Case, fails, ints, no_grad, op

CASES: list[Case] = [
    *(
        op("_contrib_all_reduce", (2, 3), op=name, ref=lambda x: x, grad=name in "sum mean")
        for name in ("sum", "mean", "min", "max", "product")
    ),
    op("_contrib_all_reduce", ints([[1, 2]]), ref=lambda x: x),
    op("_contrib_all_reduce", (2, 3), replicated=True, ref=lambda x: x),
    op("_contrib_all_reduce", (2, 3), op="mean", replicated=True, ref=lambda x: x),
    op("_contrib_sum_gradient", (2, 3), ref=lambda x: x),
    op("_contrib_broadcast", (4,), ref=lambda x: x),
    op("_contrib_all_gather", (2, 3), axis=-1, ref=lambda x: x),
    op("_contrib_reduce_scatter", (2, 3), op="mean", ref=lambda x: x),
    no_grad("_contrib_reduce_scatter", (2, 3), axis=1, op="max", ref=lambda x: x),
    op("_contrib_all_to_all", (2, 3), concat_axis=1, ref=lambda x: x),
    no_grad("_contrib_all_gather", (0, 3), ref=lambda x: x),
    fails("_contrib_all_reduce", (2,), op="median", match="median"),
    fails("_contrib_all_reduce", ints([1]), op="mean", error=TypeError, match="'mean'.*int32"),
    fails("_contrib_all_reduce", (2,), process_set=3, match="set must be 0, .*, got 3"),
    fails("_contrib_all_reduce", (2,), process_set=-1, match="process_set"),
    fails("_contrib_sum_gradient", (2,), process_set=3, match="set must be 0, .*, got 3"),
    fails("_contrib_broadcast", (2,), root=1, match="root must be a rank of .*, got 1"),
    fails("_contrib_all_gather", (2,), axis=1, error=IndexError, match="axis 1"),
    fails("_contrib_reduce_scatter", (), axis=0, error=IndexError, match="0 dimensions"),
    fails("_contrib_all_to_all", (2,), split_axis=-2, error=IndexError, match="axis -2"),
    fails("_contrib_send", (2,), destination=0, match="another rank"),
    fails("_contrib_recv", (2,), source=0, match="another rank"),
]
