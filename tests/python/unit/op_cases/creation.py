"""Arrays from nothing, copies and conversions."""

from __future__ import annotations

import numpy as np
from op_table import Case, fails, ints, op, rand

CASES: list[Case] = [
    op("_zeros", shape=(2, 3), ref=np.zeros((2, 3))),
    op("_zeros", shape=(0, 3), ref=np.zeros((0, 3))),
    op("_ones", shape=(2,), dtype="int8", ref=np.ones(2)),
    op("_ones", shape=5, dtype="bfloat16", ref=np.ones(5)),
    op("_full", shape=(2, 3), value=1.5, ref=np.full((2, 3), 1.5)),
    op("_full", shape=(2,), value=2.7, dtype="int32", ref=np.array([2, 2])),
    op("_full", shape=(2,), value=1, dtype="bool", ref=np.array([True, True])),
    op("_full", shape=(), value=3, ref=np.array(3.0)),
    fails(
        "_zeros",
        shape=(2, -3),
        error=ValueError,
        match=r"_zeros: parameter shape: \(2, -3\) given, at least -1",
    ),
    op("_arange", start=5, ref=np.arange(5.0)),
    op("_arange", start=1, stop=2, step=0.3, ref=np.arange(1, 2, 0.3)),
    op("_arange", start=0, stop=3, repeat=2, ref=np.array([0, 0, 1, 1, 2, 2])),
    op("_arange", start=5, stop=0, step=-2, dtype="int64", ref=np.array([5, 3, 1])),
    # Start and step are cast first.
    op("_arange", start=1.3, stop=9, step=1.3, dtype="int32", ref=np.arange(1, 7)),
    op("_arange", start=-1.7, stop=2, step=1.3, dtype="int64", ref=np.array([-1, 0, 1])),
    op("_arange", start=3, stop=1, ref=np.zeros(0)),
    fails("_arange", start=0, stop=3, step=0, error=ValueError, match="_arange: step 0"),
    fails(
        "_arange",
        start=0,
        stop=3,
        repeat=0,
        error=ValueError,
        match="_arange: parameter repeat: 0 given, from 1",
    ),
    op("_linspace", start=0, stop=1, num=7, ref=np.linspace(0, 1, 7)),
    op(
        "_linspace",
        start=2,
        stop=0,
        num=4,
        endpoint=False,
        ref=np.linspace(2, 0, 4, endpoint=False),
    ),
    op("_linspace", start=2, stop=3, num=1, ref=np.array([2])),
    op("_linspace", start=2, stop=3, num=0, ref=np.zeros(0)),
    fails(
        "_linspace", start=0, stop=1, num=-1, error=ValueError, match="num: -1 given, at least 0"
    ),
    op("_eye", N=3, ref=np.eye(3)),
    op("_eye", N=2, M=4, k=1, ref=np.eye(2, 4, 1)),
    op("_eye", N=4, M=3, k=-2, dtype="int32", ref=np.eye(4, 3, -2)),
    op("zeros_like", rand(2, 3), ref=np.zeros_like, grad=False),
    op("ones_like", rand(2, 3), ref=np.ones_like, grad=False),
    op("ones_like", ints([[1, 2]], "uint8"), ref=np.ones_like),
    op("zeros_like", rand(0, 3), ref=np.zeros_like, grad=False),
    op("_copyto", rand(2, 3), ref=lambda x: x),
    *[
        op(
            "Cast",
            rand(2, 3, low=-3, high=3),
            dtype=d,
            out_dtype=d,
            ref=lambda x: x,
            grad=d == "float64",
        )
        for d in ("float32", "float64")
    ],
    *[
        op(
            "Cast",
            rand(300, low=-3, high=3),
            dtype=d,
            out_dtype=d,
            dtypes=("float32",),
            grad=False,
            ref=lambda x: x,
        )
        for d in ("float16", "bfloat16")
    ],
    op(
        "Cast",
        np.array([1.9, -1.9, 0.0]),
        dtype="int32",
        out_dtype="int32",
        ref=np.array([1, -1, 0]),
        grad=False,
    ),
    op(
        "Cast",
        np.array([0.5, 0.0, np.nan]),
        dtype="bool",
        out_dtype="bool",
        grad=False,
        ref=np.array([True, False, True]),
    ),
    op("Cast", ints([1, -1, 300]), dtype="uint8", ref=np.array([1, 255, 44])),
    op("Cast", ints([2**53 + 1], "int64"), dtype="int64", ref=np.array([2**53 + 1])),
    op("Cast", ints([0, 3], "uint8"), dtype="bool", ref=np.array([False, True])),
    op("Cast", rand(0, 2), dtype="float64", out_dtype="float64", grad=False, ref=lambda x: x),
    fails("Cast", rand(2), dtype="complex64", error=ValueError, match="Cast.*dtype.*complex64"),
    op("amp_cast", rand(2, 3), dtype="float64", out_dtype="float64", ref=lambda x: x),
    op("amp_cast", ints([1, 2]), dtype="float16", ref=np.array([1, 2])),
    op("amp_multicast", rand(2), rand(3), num_outputs=2, ref=lambda a, b: [a, b]),
    fails("amp_multicast", rand(2), num_outputs=2, error=ValueError, match="amp_multicast: 1 arr"),
]
