"""Collective operators in a process that has joined no job: a group of one rank."""

from __future__ import annotations

from op_table import Case, fails, ints, op, rand

CASES: list[Case] = [
    *(
        op("_contrib_all_reduce", rand(2, 3), op=name, ref=lambda x: x, grad=name in "sum mean")
        for name in ("sum", "mean", "min", "max", "product")
    ),
    op("_contrib_all_reduce", ints([[1, 2]]), ref=lambda x: x),
    op("_contrib_all_reduce", rand(2, 3), replicated=True, ref=lambda x: x),
    op("_contrib_all_reduce", rand(2, 3), op="mean", replicated=True, ref=lambda x: x),
    op("_contrib_sum_gradient", rand(2, 3), ref=lambda x: x),
    op("_contrib_broadcast", rand(4), ref=lambda x: x),
    op("_contrib_all_gather", rand(2, 3), axis=-1, ref=lambda x: x),
    op("_contrib_reduce_scatter", rand(2, 3), op="mean", ref=lambda x: x),
    op("_contrib_reduce_scatter", rand(2, 3), axis=1, op="max", ref=lambda x: x, grad=False),
    op("_contrib_all_to_all", rand(2, 3), concat_axis=1, ref=lambda x: x),
    op("_contrib_all_gather", rand(0, 3), ref=lambda x: x, grad=False),
    fails("_contrib_all_reduce", rand(2), op="median", error=ValueError, match="median"),
    fails("_contrib_all_reduce", ints([1]), op="mean", error=TypeError, match="'mean'.*int32"),
    fails("_contrib_all_reduce", rand(2), process_set=3, error=ValueError, match="set 3 given"),
    fails("_contrib_all_reduce", rand(2), process_set=-1, error=ValueError, match="process_set"),
    fails("_contrib_sum_gradient", rand(2), process_set=3, error=ValueError, match="set 3 given"),
    fails("_contrib_broadcast", rand(2), root=1, error=ValueError, match="root 1 given"),
    fails("_contrib_all_gather", rand(2), axis=1, error=IndexError, match="axis 1"),
    fails("_contrib_reduce_scatter", rand(), axis=0, error=IndexError, match="0 dimensions"),
    fails("_contrib_all_to_all", rand(2), split_axis=-2, error=IndexError, match="axis -2"),
    fails("_contrib_send", rand(2), destination=0, error=ValueError, match="another rank"),
    fails("_contrib_recv", rand(2), source=0, error=ValueError, match="another rank"),
]
