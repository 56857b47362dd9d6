"""Shape inference of symbols from shapes that are known in part.

A rule may leave a dimension unknown, but what it says must hold for every size that the unknown
dimensions can take, and it must not reject what may fit.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import mxlite as mx
import pytest
from mxlite.base import MXNetError
from op_cases import all_cases
from op_table import Case, find_op, is_float

sym = mx.sym
ANY = None  # an unknown shape

ROWS: dict[str, list[Case]] = defaultdict(list)
for row in all_cases():
    if row.error is None and all(0 not in a.shape and a.ndim > 0 for a in row.inputs):
        ROWS[row.name].append(row)
# Operators whose later inputs may have one of several shapes; where nothing is known of them they
# get 1.x's choice.
CHOOSING = {"GroupNorm", "LeakyReLU", "pick", "LinearRegressionOutput", "MAERegressionOutput",
            "LogisticRegressionOutput"}  # fmt: skip
NAMES = sorted(name for name, rows in ROWS.items() if any(row.inputs for row in rows))


def composed(case: Case) -> tuple[list[str], Any]:
    """Return the names of the inputs and the operator's outputs as one symbol."""
    names = [f"x{i}" for i in range(len(case.inputs))]
    variables = [
        sym.var(name, dtype="float32" if is_float(array) else str(array.dtype))
        for name, array in zip(names, case.inputs)
    ]
    net = find_op(case.name)(*variables, **case.params)
    return names, sym.Group(net) if isinstance(net, list) else net


def hidden(shapes: dict[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Return the shapes with single dimensions, all of an axis, of an input, or all unknown."""
    places = [(name, axis) for name, shape in shapes.items() for axis in range(len(shape))]
    choices = [{place} for place in places]
    choices += [{p for p in places if p[0] == name} for name in shapes]
    choices += [{p for p in places if p[1] == axis} for axis in range(4)]
    choices += [{(n, len(s) - 1) for n, s in shapes.items()}, set(places)]
    choices += [set(pair) for pair in itertools.combinations(places[:6], 2)]
    for choice in choices:
        yield {
            name: tuple(0 if (name, axis) in choice else n for axis, n in enumerate(shape))
            for name, shape in shapes.items()
        }


def agrees(partial: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Return whether a partial shape, () or with dimensions of 0, may become the whole one."""
    if partial == ():
        return True
    return len(partial) == len(whole) and all(a in (0, b) for a, b in zip(partial, whole))


def check(case: Case, hide: Any) -> None:
    """Infer from the shapes hide(shapes) yields; every result must agree with the whole shapes."""
    names, net = composed(case)
    shapes = {n: array.shape for n, array in zip(names, case.inputs)}
    whole = net.infer_shape_partial(**shapes)
    for known in hide(shapes):
        for part, expected in zip(net.infer_shape_partial(**known), whole):
            for a, b in zip(part, expected):
                assert agrees(a, b), f"{case} with {known}: {a} inferred, {b} true"


@pytest.mark.parametrize("name", NAMES)
def test_partial_shapes_hold_for_the_whole_ones(name: str) -> None:
    def hide(shapes: dict[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
        fixed = dict(list(shapes.items())[1:]) if name in CHOOSING else {}
        return ({**known, **fixed} for known in hidden(shapes))

    for case in ROWS[name]:
        check(case, hide)


@pytest.mark.parametrize("name", sorted(set(NAMES) - CHOOSING))
def test_missing_inputs_are_no_errors(name: str) -> None:
    for case in ROWS[name]:
        check(case, lambda shapes: [{k: v for k, v in shapes.items() if k != n} for n in shapes])


def op(name: str, *shapes: tuple[int, ...], **params: Any) -> tuple[Any, dict[str, Any]]:
    """Return an operator of variables x0, x1, ... and their shapes."""
    names = [f"x{i}" for i in range(len(shapes))]
    net = getattr(sym, name)(*map(sym.var, names), **params)
    return net, {n: s for n, s in zip(names, shapes) if s is not None}


FORWARD = [
    # broadcasting: a known dimension above 1 decides
    (op("broadcast_add", (0, 3), (5, 1)), [(5, 3)]),
    (op("broadcast_add", (0, 3), (1, 3)), [(0, 3)]),
    (op("broadcast_add", (0,), (1680,)), [(1680,)]),
    (op("broadcast_add", (0, 0), (1680, 3360)), [(1680, 3360)]),
    (op("broadcast_to", (0, 1), shape=(0, 7)), [(0, 7)]),
    (op("broadcast_like", (5, 1), (0, 7)), [(5, 7)]),
    (op("broadcast_axis", (0, 3), axis=0, size=7), [(7, 3)]),
    # equal shapes complete each other
    (op("elemwise_mul", (0, 3), (2, 0)), [(2, 3)]),
    (op("add_n", (0, 3, 0), (2, 0, 0), (0, 0, 4)), [(2, 3, 4)]),
    (op("where", (2, 3), (2, 0), (0, 0)), [(2, 3)]),
    (op("where", (2,), (0, 3), (0, 0)), [(2, 3)]),
    (op("where", (0,), (2, 3), (2, 3)), [ANY]),  # 1.x waits for the condition
    (op("stack", (0, 3), (2, 0), axis=1), [(2, 2, 3)]),
    # sums and products of dimensions
    (op("concat", (2, 0), (0, 3), dim=1), [(2, 0)]),
    (op("concat", (0, 2), (5, 3), dim=1), [(5, 5)]),
    (op("tile", (0, 3), reps=(2, 2)), [(0, 6)]),
    (op("repeat", (0, 3), repeats=2), [(0,)]),
    (op("Pad", (0, 3, 0, 5), mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 2, 2)), [(0, 3, 0, 9)]),
    (op("depth_to_space", (2, 0, 3, 0), block_size=2), [(2, 0, 6, 0)]),
    (op("khatri_rao", (0, 3), (4, 0)), [(0, 3)]),
    # splits: the number of parts need not divide 1680
    (op("split", (0, 6), num_outputs=11, axis=0), [(0, 6)] * 11),
    (op("split", (0, 6), num_outputs=3, axis=1), [(0, 2)] * 3),
    (op("split", (11, 0), num_outputs=11, axis=0, squeeze_axis=True), [(0,)] * 11),
    # parts, of which the data may hold less
    (op("slice", (0, 5), begin=(0, 1), end=(4, 3)), [(0, 2)]),
    (op("slice_axis", (0, 5), axis=0, begin=1, end=4), [(0, 5)]),
    (op("slice_axis", (0, 5), axis=1, begin=1, end=-1), [(0, 3)]),
    (op("slice_like", (0, 5), (3, 0)), [(3, 0)]),
    # reshape: kept dimensions cancel in the one that is computed
    (op("reshape", (0, 6), shape=(0, -1, 3)), [(0, 2, 3)]),
    (op("reshape", (0, 6, 4), shape=(-3, -1)), [(0, 4)]),
    (op("reshape", (0, 6), shape=(-1, 0)), [(0, 6)]),
    (op("reshape", (2, 0), shape=(0, -4, -1, 5)), [(2, 0, 5)]),
    (op("reshape", (2, 0), shape=(1680, 2)), [(1680, 2)]),
    (op("reshape", (0, 4, 6), shape=(0, 0, -4, 2, -1)), [(0, 4, 2, 3)]),
    (op("flatten", (0, 3, 4)), [(0, 12)]),
    (op("flatten", (2, 3, 0)), [(2, 0)]),
    (op("reshape_like", (0, 6), (2, 3, 0)), [(2, 3, 0)]),
    # an axis that is not known may have length 1
    (op("squeeze", (0, 1, 3)), [ANY]),
    (op("squeeze", (0, 1, 3), axis=1), [(0, 3)]),
    (op("squeeze", (2, 0, 3), axis=1), [(2, 3)]),
    # products
    (op("dot", (2, 0), (1680, 3)), [(2, 3)]),
    (op("dot", (0, 5), (5, 0), transpose_a=False), [(0, 0)]),
    (op("dot", (0, 4), (0, 3), transpose_a=True), [(4, 3)]),
    (op("batch_dot", (0, 2, 1680), (7, 1680, 3)), [(7, 2, 3)]),
    (op("batch_dot", (0, 2, 0), (7, 1680, 3)), [ANY]),  # 1.x waits for both
    # windows: a kernel may be larger than any size that replaces an unknown one
    (op("Pooling", (0, 3, 0, 9), kernel=(3, 3), stride=(2, 2)), [(0, 3, 0, 4)]),
    (op("Pooling", (2, 3, 0), kernel=(4000,)), [(2, 3, 0)]),
    (op("Pooling", (2, 0, 0, 0), global_pool=True), [(2, 0, 1, 1)]),
    (op("im2col", (0, 3, 5, 0), kernel=(3, 3)), [(0, 27, 0)]),
    (op("UpSampling", (0, 3, 0, 5), scale=2, sample_type="nearest"), [(0, 3, 0, 10)]),
    # reductions and orders
    (op("sum", (0, 3, 4), axis=(0, 2)), [(3,)]),
    (op("argmax", (0, 3), axis=0), [(3,)]),
    (op("topk", (2, 0), k=2000, axis=1), [(2, 2000)]),
    (op("sort", (2, 0), axis=None), [(0,)]),
    (op("take", (0, 3), (2, 0)), [(2, 0, 3)]),
    (op("pick", (2, 0), (0,)), [(2,)]),
    (op("gather_nd", (2, 3, 4), (0, 5)), [ANY]),
    (op("one_hot", (0, 3), depth=4), [(0, 3, 4)]),
    (op("diag", (0, 3)), [(0,)]),
    (op("linalg_gemm2", (7, 0, 5), (0, 5, 3)), [(7, 0, 3)]),
    (op("SequenceLast", (0, 2, 3)), [(2, 3)]),
]


@pytest.mark.parametrize(("net", "out"), FORWARD, ids=lambda v: v[0].name if len(v) == 2 else "")
def test_dimensions_are_told_only_where_they_follow(net: Any, out: Any) -> None:
    symbol, shapes = net
    found = symbol.infer_shape_partial(**shapes)[1]
    assert found == [() if shape is ANY else shape for shape in out]


@pytest.mark.parametrize("size", [1, 3, 1680, 3360])
def test_no_size_is_special(size: int) -> None:
    x, y = sym.var("x"), sym.var("y")
    net = sym.concat(sym.broadcast_add(x, y), sym.dot(x, y), dim=0)
    args, outs, _ = net.infer_shape_partial(x=(size, 0), y=(size, 5))
    assert (args, outs) == ([(size, 0), (size, 5)], [(2 * size, 5)])


def test_layers_tell_their_weights_without_the_batch_size() -> None:
    data = sym.var("data")
    net = sym.Convolution(data, kernel=(3, 3), num_filter=22, num_group=11, name="c")
    net = sym.BatchNorm(sym.Pooling(net, kernel=(2, 2), stride=(2, 2)), name="b")
    net = sym.FullyConnected(net, num_hidden=7, name="f")
    args, outs, states = net.infer_shape_partial(data=(0, 33, 8, 8))
    found = dict(zip(net.list_arguments(), args))
    assert found["c_weight"] == (22, 3, 3, 3)
    assert (found["b_gamma"], states) == ((22,), [(22,), (22,)])
    assert (found["f_weight"], found["f_bias"], outs) == ((7, 198), (7,), [(0, 7)])


def test_weights_stay_unknown_where_they_depend_on_what_is_unknown() -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=7, name="f")
    args, outs, _ = net.infer_shape_partial(data=(2, 3, 0))
    assert (args, outs) == ([(2, 3, 0), (7, 0), (7,)], [(2, 7)])
    deconvolution = sym.Deconvolution(sym.var("data"), kernel=(4, 4), num_filter=5, name="d")
    args, outs, _ = deconvolution.infer_shape_partial(data=(2, 0, 0, 8))
    assert (args[1], outs) == ((0, 5, 4, 4), [(2, 5, 0, 11)])


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_rnn_layers_tell_states_and_parameters(mode: str) -> None:
    whole = {"mode": mode, "state_size": 5, "num_layers": 2, "bidirectional": True}
    net = sym.RNN(sym.var("data"), name="r", state_outputs=True, **whole)
    names = net.list_arguments()
    full = dict(zip(names, net.infer_shape(data=(6, 4, 3))[0]))
    for data, count in [((0, 0, 3), full["r_parameters"]), ((6, 4, 0), (0,))]:
        args, outs, _ = net.infer_shape_partial(data=data)
        found = dict(zip(names, args))
        assert found["r_parameters"] == count
        assert found["r_state"] == (4, data[1], 5)
        assert outs[:2] == [(data[0], data[1], 10), (4, data[1], 5)]


def test_a_kernel_that_does_not_fit_is_an_error_only_when_the_size_is_known() -> None:
    net = sym.Convolution(sym.var("x"), kernel=(9,), num_filter=2, no_bias=True, name="c")
    assert net.infer_shape_partial(x=(1, 3, 0))[1] == [(1, 2, 0)]
    with pytest.raises(MXNetError, match="kernel's extent .* got 9"):
        net.infer_shape_partial(x=(1, 3, 8))


@pytest.mark.parametrize(
    ("net", "texts"),
    [
        (op("FullyConnected", (0, 6), (4, 7), num_hidden=4, no_bias=True), ["FullyConnected", "7"]),
        (op("dot", (0, 4), (5, 0)), ["dot", "4 and 5 elements"]),
        (op("concat", (0, 4), (5, 3), dim=0), ["concat", "(0, 4)", "(0, 3)"]),
        (op("split", (0, 7), num_outputs=2, axis=1), ["SliceChannel", "2 equal parts"]),
        (op("reshape", (0, 7), shape=(0, -1, 2)), ["Reshape", "7 elements"]),
        (op("broadcast_add", (0, 4), (5, 3)), ["broadcast_add", "broadcast"]),
        (op("Convolution", (0, 4), (2, 4, 3), kernel=(3,), num_filter=2, no_bias=True),
         ["Convolution", "batch"]),
        (op("Convolution", (0, 7, 9), (4, 3, 3), kernel=(3,), num_filter=4, num_group=2,
            no_bias=True), ["Convolution", "got 7 in data"]),
        (op("linalg_potrf", (0, 3, 4)), ["linalg_potrf", "square"]),
        (op("transpose", (0, 3), axes=(0, 2)), ["transpose", "axis 2"]),
    ],
    ids=lambda v: v[0].name if isinstance(v, tuple) else "",
)  # fmt: skip
def test_what_cannot_fit_is_an_error_before_everything_is_known(net: Any, texts: list[str]) -> None:
    symbol, shapes = net
    with pytest.raises(Exception) as caught:
        symbol.infer_shape_partial(**shapes)
    text = str(caught.value)
    assert isinstance(caught.value, (MXNetError, IndexError)), text
    assert all(part in text for part in texts), text
    assert "1680" not in text and "3360" not in text


BACKWARD = [
    # (a net of x, what is known of x, the shape that its output is added to, x)
    (lambda x: x + 1, ANY, (2, 3), (2, 3)),
    (lambda x: sym.relu(x), (0, 3), (2, 3), (2, 3)),
    (lambda x: sym.transpose(x, axes=(2, 0, 1)), ANY, (4, 2, 3), (2, 3, 4)),
    (lambda x: sym.expand_dims(x, axis=1), ANY, (2, 1, 3), (2, 3)),
    (lambda x: x.reshape((0, -1)), (0, 3, 4), (2, 12), (2, 3, 4)),
    (lambda x: sym.Pooling(x, kernel=(2, 2)), (0, 3, 8, 8), (5, 3, 7, 7), (5, 3, 8, 8)),
    (lambda x: sym.Convolution(x, kernel=(3,), num_filter=2), (0, 3, 0), (5, 2, 7), (5, 3, 9)),
    (lambda x: sym.FullyConnected(x, num_hidden=2), (0, 3), (5, 2), (5, 3)),
    (lambda x: sym.softmax(sym.LayerNorm(x)), (0, 0), (5, 2), (5, 2)),
    (lambda x: sym.split(x, num_outputs=2, axis=1)[0], (0, 0), (5, 3), (5, 6)),
    (lambda x: sym.concat(x, sym.zeros((5, 4)), dim=1), (0, 0), (5, 7), (5, 0)),
    (lambda x: sym.Cast(x, "float64").astype("float32"), ANY, (5, 7), (5, 7)),
    (lambda x: sym.random.normal_like(x), ANY, (5, 7), (5, 7)),
]


@pytest.mark.parametrize(("net", "known", "out", "expected"), BACKWARD)
def test_outputs_tell_their_inputs(net: Any, known: Any, out: Any, expected: Any) -> None:
    x = sym.var("x")
    joined = sym.elemwise_add(net(x), sym.var("other"))
    shapes = {"other": out} if known is ANY else {"other": out, "x": known}
    args, _, _ = joined.infer_shape_partial(**shapes)
    assert dict(zip(joined.list_arguments(), args))["x"] == expected


def test_labels_follow_data_of_which_the_batch_is_unknown() -> None:
    net = sym.SoftmaxOutput(sym.var("x"), name="s")
    assert net.infer_shape_partial(x=(0, 10))[0] == [(0, 10), (0,)]
    assert net.infer_shape_partial(x=(0, 10), s_label=(5,))[0] == [(0, 10), (5,)]
    net = sym.LinearRegressionOutput(sym.var("x"), name="r")
    assert net.infer_shape_partial(x=(0, 3))[0] == [(0, 3), (0, 3)]
    assert net.infer_shape_partial(x=(0, 1))[0] == [(0, 1), (0,)]
    # one or two dimensions, depending on what is unknown
    assert net.infer_shape_partial(x=(5, 0))[0] == [(5, 0), ()]
    assert net.infer_shape_partial(x=(0, 1), r_label=(8,))[0] == [(8, 1), (8,)]


def test_groups_and_channels_of_group_norm_may_be_unknown() -> None:
    names = ("x", "gamma", "beta")
    net = sym.GroupNorm(*map(sym.var, names), num_groups=4)
    assert net.infer_shape_partial(x=(2, 0, 5))[0] == [(2, 0, 5), (4,), (4,)]
    found = net.infer_shape_partial(x=(2, 0, 5), gamma=(32,), beta=(32,))
    assert found[1] == [(2, 0, 5)]


def test_loops_and_branches_tell_what_their_graphs_tell() -> None:
    data, state = sym.var("data"), sym.var("state")
    out, states = sym.contrib.foreach(lambda d, s: (d + s, d * s), data, state)
    net = sym.Group([out, states])
    assert net.infer_shape_partial(data=(0, 2, 3), state=(2, 0))[1] == [(0, 2, 3), (2, 3)]
    x, y = sym.var("x"), sym.var("y")
    net = sym.contrib.cond(x.sum() > 0, lambda: x * 2, lambda: y * 2)
    assert net.infer_shape_partial(x=(0, 3), y=(2, 0))[1] == [(2, 3)]


@mx.operator.register("partial_shapes_padded")
class _Padded(mx.operator.CustomOpProp):
    """The output has two more rows and half of the columns."""

    def infer_shape(self, in_shape: Any) -> Any:
        (rows, columns) = in_shape[0]
        return in_shape, [[rows + 2, columns // 2, 4]], []


@mx.operator.register("partial_shapes_chosen")
class _Chosen(mx.operator.CustomOpProp):
    """The number of dimensions is the value of the first dimension."""

    def infer_shape(self, in_shape: Any) -> Any:
        if in_shape[0][0] > 100:
            return in_shape, [in_shape[0]], []
        return in_shape, [[1, 2, 3]], []


def test_rules_written_in_python_are_not_given_made_up_sizes() -> None:
    net = sym.Custom(sym.var("x"), op_type="partial_shapes_padded")
    assert net.infer_shape_partial(x=(0, 8))[1] == [(0, 4, 4)]
    assert net.infer_shape_partial(x=(3, 0))[1] == [(5, 0, 4)]
    net = sym.Custom(sym.var("x"), op_type="partial_shapes_chosen")
    assert net.infer_shape_partial(x=(0, 8))[1] == [()]
    assert net.infer_shape_partial(x=(3, 0))[1] == [(1, 2, 3)]


def test_unknown_dimensions_are_minus_one_with_numpy_shapes() -> None:
    with mx.util.np_shape(True):
        net = sym.concat(sym.var("x"), sym.var("y"), dim=0)
        assert net.infer_shape_partial(x=(0, 3), y=(-1, -1))[1] == [(-1, 3)]
        net = sym.broadcast_mul(sym.var("x"), sym.var("y"))
        assert net.infer_shape_partial(x=(0, 3), y=(-1, 1))[1] == [(0, 3)]
        net = sym.reshape(sym.var("x"), shape=(-1, 6))
        assert net.infer_shape_partial(x=(0, 6))[1] == [(0, 6)]


def test_what_was_told_early_agrees_with_what_is_known_late() -> None:
    x, y = sym.var("x"), sym.var("y")
    squeezed = sym.squeeze(sym.elemwise_add(x, y))
    # x alone leaves open whether its first axis is squeezed, which y then decides
    args, outs, _ = squeezed.infer_shape(x=(0, 1, 3), y=(1, 1, 3))
    assert (args, outs) == ([(1, 1, 3)] * 2, [(3,)])
    parts = sym.Group(list(sym.split_v2(sym.elemwise_add(x, y), (2, 5), axis=0)))
    assert parts.infer_shape_partial(x=(0, 2))[1] == [(0, 2)] * 3
    assert parts.infer_shape(x=(0, 2), y=(5, 2))[1][:2] == [(2, 2), (3, 2)]


def test_shapes_of_executors_follow_partial_shapes() -> None:
    net = sym.FullyConnected(sym.var("data"), num_hidden=4, name="f")
    run = (net + sym.var("other")).simple_bind(mx.cpu(), data=(0, 3), other=(2, 4))
    assert run.arg_dict["data"].shape == (2, 3)
    assert run.forward()[0].shape == (2, 4)
