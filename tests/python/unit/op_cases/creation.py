"""Arrays from nothing, copies and conversions."""

from __future__ import annotations

import numpy as np
from op_table import Case, fails, ints, no_grad, op, rand

_SINGLE = {"dtypes": ("float32",), "grad": False}


CASES: list[Case] = [
    op("_zeros", shape=(2, 3), ref=np.zeros((2, 3))),
    op("_zeros", shape=(0, 3), ref=np.zeros((0, 3))),
    op("_ones", shape=(2,), dtype="int8", ref=np.ones(2)),
    op("_ones", shape=5, dtype="bfloat16", ref=np.ones(5)),
    op("_full", shape=(2, 3), value=1.5, ref=np.full((2, 3), 1.5)),
    op("_full", shape=(2,), value=2.7, dtype="int32", ref=np.array([2, 2])),
    op("_full", shape=(2,), value=1, dtype="bool", ref=np.array([True, True])),
    op("_full", shape=(), value=3, ref=np.array(3.0)),
    fails("_zeros", shape=(2, -3), match=r"_zeros: parameter shape must be at least -1, got"),
    op("_arange", start=5, ref=np.arange(5.0)),
    op("_arange", start=1, stop=2, step=0.3, ref=np.arange(1, 2, 0.3)),
    op("_arange", start=0, stop=3, repeat=2, ref=np.array([0, 0, 1, 1, 2, 2])),
    op("_arange", start=5, stop=0, step=-2, dtype="int64", ref=np.array([5, 3, 1])),
    # Start and step are cast first.
    op("_arange", start=1.3, stop=9, step=1.3, dtype="int32", ref=np.arange(1, 7)),
    op("_arange", start=-1.7, stop=2, step=1.3, dtype="int64", ref=np.array([-1, 0, 1])),
    op("_arange", start=3, stop=1, ref=np.zeros(0)),
    fails("_arange", start=0, stop=3, step=0, match="_arange: step must not be 0"),
    fails("_arange", start=0, stop=3, repeat=0, match="_arange: parameter repeat must be from 1"),
    op("_linspace", start=0, stop=1, num=7, ref=np.linspace(0, 1, 7)),
    op("_linspace", start=2, stop=0, num=4, endpoint=False, ref=np.array([2, 1.5, 1, 0.5])),
    op("_linspace", start=2, stop=3, num=1, ref=np.array([2])),
    op("_linspace", start=2, stop=3, num=0, ref=np.zeros(0)),
    fails("_linspace", start=0, stop=1, num=-1, match="num must be at least 0, got -1"),
    op("_eye", N=3, ref=np.eye(3)),
    op("_eye", N=2, M=4, k=1, ref=np.eye(2, 4, 1)),
    op("_eye", N=4, M=3, k=-2, dtype="int32", ref=np.eye(4, 3, -2)),
    no_grad("zeros_like", (2, 3), ref=np.zeros_like),
    no_grad("ones_like", (2, 3), ref=np.ones_like),
    op("ones_like", ints([[1, 2]], "uint8"), ref=np.ones_like),
    no_grad("zeros_like", (0, 3), ref=np.zeros_like),
    op("_copyto", (2, 3), ref=lambda x: x),
    *[
        op("Cast", rand(2, 3) * 3, dtype=d, out_dtype=d, ref=lambda x: x, grad=d == "float64")
        for d in ("float32", "float64")
    ],
    *[
        op("Cast", rand(300) * 3, dtype=d, out_dtype=d, ref=lambda x: x, **_SINGLE)
        for d in ("float16", "bfloat16")
    ],
    *[
        no_grad("Cast", np.array(values), dtype=d, out_dtype=d, ref=np.array(want))
        for d, values, want in [
            ("int32", [1.9, -1.9, 0.0], [1, -1, 0]),
            ("bool", [0.5, 0.0, np.nan], [True, False, True]),
        ]
    ],
    op("Cast", ints([1, -1, 300]), dtype="uint8", ref=np.array([1, 255, 44])),
    op("Cast", ints([2**53 + 1], "int64"), dtype="int64", ref=np.array([2**53 + 1])),
    op("Cast", ints([0, 3], "uint8"), dtype="bool", ref=np.array([False, True])),
    no_grad("Cast", (0, 2), dtype="float64", out_dtype="float64", ref=lambda x: x),
    fails("Cast", (2,), dtype="complex64", match="Cast.*dtype.*complex64"),
    op("amp_cast", (2, 3), dtype="float64", out_dtype="float64", ref=lambda x: x),
    op("amp_cast", ints([1, 2]), dtype="float16", ref=np.array([1, 2])),
    op("amp_multicast", (2,), (3,), num_outputs=2, ref=lambda a, b: [a, b]),
    fails("amp_multicast", (2,), num_outputs=2, match="amp_multicast: .* 1, got 2"),
]
