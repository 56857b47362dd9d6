"""mx.rnn: symbolic cells, buckets, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import rnn

STEPS, BATCH, INPUTS, HIDDEN = 3, 2, 4, 5


def values(*shape: int, seed: int = 0) -> mx.nd.NDArray:
    return mx.nd.array(np.random.RandomState(seed).uniform(-0.5, 0.5, shape).astype("float32"))


def evaluate(output: Any, args: dict[str, mx.nd.NDArray], **data: mx.nd.NDArray) -> np.ndarray:
    """Run a symbol with the arrays it needs of args and data."""
    symbol = mx.sym.Group(output) if isinstance(output, list) else output
    known = {**args, **data}
    arrays = {name: known[name] for name in symbol.list_arguments()}
    results = symbol.bind(mx.cpu(), arrays).forward()
    return np.stack([r.asnumpy() for r in results]) if len(results) > 1 else results[0].asnumpy()


def random_args(symbol: Any, **shapes: tuple[int, ...]) -> dict[str, mx.nd.NDArray]:
    found, _, _ = symbol.infer_shape(**shapes)
    names = symbol.list_arguments()
    return {n: values(*s, seed=i) for i, (n, s) in enumerate(zip(names, found)) if n not in shapes}


CELLS = {
    "rnn": lambda: rnn.RNNCell(HIDDEN, "relu"),
    "lstm": lambda: rnn.LSTMCell(HIDDEN),
    "gru": lambda: rnn.GRUCell(HIDDEN),
}
GLUON = {
    "rnn": lambda: mx.gluon.rnn.RNNCell(HIDDEN, "relu", prefix="rnn_"),
    "lstm": lambda: mx.gluon.rnn.LSTMCell(HIDDEN, prefix="lstm_"),
    "gru": lambda: mx.gluon.rnn.GRUCell(HIDDEN, prefix="gru_"),
}


@pytest.mark.parametrize("kind", list(CELLS))
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_symbolic_cells_compute_what_gluon_cells_compute(kind: str, layout: str) -> None:
    shape = (BATCH, STEPS, INPUTS) if layout == "NTC" else (STEPS, BATCH, INPUTS)
    outputs, _ = CELLS[kind]().unroll(
        STEPS, mx.sym.Variable("data"), layout=layout, merge_outputs=True
    )
    args = random_args(outputs, data=shape)
    cell = GLUON[kind]()
    cell.initialize()
    x = values(*shape, seed=99)
    cell.unroll(STEPS, x, layout=layout)
    for name, param in cell.collect_params().items():
        param.set_data(args[name])
    want, _ = cell.unroll(STEPS, x, layout=layout, merge_outputs=True)
    np.testing.assert_allclose(evaluate(outputs, args, data=x), want.asnumpy(), atol=1e-6)


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_fused_cell_and_its_unfused_stack_exchange_weights(
    mode: str, bidirectional: bool
) -> None:
    fused = rnn.FusedRNNCell(
        HIDDEN, 2, mode=mode, bidirectional=bidirectional, get_next_state=True, prefix="f_"
    )
    x = values(BATCH, STEPS, INPUTS, seed=7)
    output, states = fused.unroll(STEPS, mx.sym.Variable("data"), merge_outputs=True)
    assert len(states) == (2 if mode == "lstm" else 1)
    args = random_args(output, data=x.shape)
    assert list(args) == ["f_parameters"]
    unpacked = fused.unpack_weights(args)
    stack = fused.unfuse()
    stacked, _ = stack.unroll(STEPS, mx.sym.Variable("data"), merge_outputs=True)
    by_cells = evaluate(stacked, stack.pack_weights(unpacked), data=x)
    np.testing.assert_allclose(evaluate(output, args, data=x), by_cells, atol=1e-6)
    packed = fused.pack_weights(unpacked)
    assert (packed["f_parameters"].asnumpy() == args["f_parameters"].asnumpy()).all()


def test_names_are_those_of_1x() -> None:
    outputs, states = rnn.LSTMCell(HIDDEN, prefix="l_").unroll(
        2, [mx.sym.Variable("x0"), mx.sym.Variable("x1")]
    )
    assert mx.sym.Group(outputs).list_outputs() == ["l_t0_out_output", "l_t1_out_output"]
    assert [s.name for s in states] == ["l_t1_out", "l_t1_state"]
    assert sorted(mx.sym.Group(outputs).list_arguments()) == [
        "l_h2h_bias", "l_h2h_weight", "l_i2h_bias", "l_i2h_weight", "x0", "x1",
    ]  # fmt: skip
    init = mx.sym.Group(outputs).attr_dict()["l_i2h_bias"]["__init__"]
    assert init == '["lstmbias", {"forget_bias": 1.0}]'
    cell = rnn.FusedRNNCell(HIDDEN, get_next_state=True)
    output, states = cell.unroll(2, mx.sym.Variable("x"), layout="TNC")
    assert output.list_outputs() == ["lstm_rnn_output"]
    outputs = [s.list_outputs() for s in states]
    assert outputs == [["lstm_rnn_state_output"], ["lstm_rnn_statecell_output"]]
    assert output.attr_dict()["lstm_rnn"]["__layout__"] == "LNC"


def test_stacks_modifiers_and_directions() -> None:
    stack = rnn.SequentialRNNCell()
    stack.add(rnn.RNNCell(INPUTS, prefix="a_"))
    stack.add(rnn.DropoutCell(0.5))
    stack.add(rnn.ZoneoutCell(rnn.GRUCell(INPUTS, prefix="g_"), 0.2, 0.3))
    stack.add(rnn.ResidualCell(rnn.GRUCell(INPUTS, prefix="h_")))
    assert stack.state_shape == [(0, INPUTS)] * 3
    steps = [mx.sym.Variable(f"x{t}") for t in range(STEPS)]
    outputs, states = stack.unroll(STEPS, steps)
    assert [o.name for o in outputs][0] == "h_t0_out_plus_residual"
    assert len(states) == 3
    data = {f"x{t}": values(BATCH, INPUTS, seed=t) for t in range(STEPS)}
    args = random_args(mx.sym.Group(outputs), **{k: v.shape for k, v in data.items()})
    got = evaluate(outputs, args, **data)

    # Outside training dropout and zoneout pass everything through.
    bare = rnn.SequentialRNNCell()
    bare.add(rnn.RNNCell(INPUTS, prefix="a_"))
    bare.add(rnn.GRUCell(INPUTS, prefix="g_"))
    below, _ = bare.unroll(STEPS, steps)
    above, _ = rnn.GRUCell(INPUTS, prefix="h_").unroll(STEPS, below)
    want = evaluate(below, args, **data) + evaluate(above, args, **data)
    np.testing.assert_allclose(got, want, atol=1e-6)

    both = rnn.BidirectionalCell(
        rnn.LSTMCell(2, prefix="l_"), rnn.LSTMCell(3, prefix="r_"), output_prefix="b_"
    )
    merged, states = both.unroll(STEPS, mx.sym.Variable("x"), merge_outputs=True)
    assert merged.name == "b_out"
    assert [len(own) for own in states] == [2, 2]
    assert merged.infer_shape(x=(BATCH, STEPS, INPUTS))[1] == [(BATCH, STEPS, 5)]
    listed, _ = both.unroll(STEPS, mx.sym.Variable("x"))
    assert [o.name for o in listed] == ["b_t0", "b_t1", "b_t2"]
    with pytest.raises(NotImplementedError, match="use unroll"):
        both(mx.sym.Variable("x"), states)


def test_a_modified_cell_is_not_called_directly() -> None:
    cell = rnn.GRUCell(HIDDEN)
    modified = rnn.ZoneoutCell(cell, 0.1)
    with pytest.raises(ValueError, match="call the modifier cell instead"):
        cell.begin_state()
    assert [s.name for s in modified.begin_state()] == ["gru_begin_state_0"]
    with pytest.raises(ValueError, match="has no steps"):
        rnn.ZoneoutCell(rnn.FusedRNNCell(3))
    stack = rnn.SequentialRNNCell()
    stack.add(rnn.LSTMCell(3, prefix="first_"))
    stack.add(rnn.ResidualCell(rnn.GRUCell(3, prefix="second_")))
    with pytest.warns(DeprecationWarning, match="use cell.unroll"):
        outputs, _ = rnn.rnn_unroll(stack, 2, input_prefix="in_")
    assert {"in_t0_data", "in_t1_data"} <= set(mx.sym.Group(outputs).list_arguments())
    kinds = ("h2h_bias", "h2h_weight", "i2h_bias", "i2h_weight")
    names = [cell + kind for cell in ("first_", "second_") for kind in kinds]
    assert sorted(stack.params._params) == names


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_convolutional_cells_keep_the_spatial_shape(kind: str) -> None:
    cell = getattr(rnn, f"Conv{kind}Cell")((0, 3, 8, 6), 4)
    outputs, states = cell.unroll(2, [mx.sym.Variable("x0"), mx.sym.Variable("x1")])
    shapes = {"x0": (BATCH, 3, 8, 6), "x1": (BATCH, 3, 8, 6)}
    assert mx.sym.Group(outputs).infer_shape(**shapes)[1] == [(BATCH, 4, 8, 6)] * 2
    args = random_args(mx.sym.Group(outputs), **shapes)
    data = {name: values(*shape, seed=3) for name, shape in shapes.items()}
    assert np.isfinite(evaluate(outputs, args, **data)).all()
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[kind]
    assert args[f"Conv{kind}_i2h_weight"].shape == (gates * 4, 3, 3, 3)


def test_checkpoints_move_between_fused_and_unfused_cells(tmp_path: Path) -> None:
    fused = rnn.FusedRNNCell(HIDDEN, mode="gru", prefix="f_")
    output, _ = fused.unroll(STEPS, mx.sym.Variable("data"), merge_outputs=True)
    x = values(BATCH, STEPS, INPUTS)
    args = random_args(output, data=x.shape)
    prefix = str(tmp_path / "model")
    rnn.do_rnn_checkpoint(fused, prefix, period=2)(0, output, args, {})
    assert not list(tmp_path.iterdir())
    rnn.do_rnn_checkpoint(fused, prefix, period=2)(1, output, args, {})
    stack = fused.unfuse()
    _, loaded, auxs = rnn.load_rnn_checkpoint(stack, prefix, 2)
    assert auxs == {}
    stacked, _ = stack.unroll(STEPS, mx.sym.Variable("data"), merge_outputs=True)
    want = evaluate(output, args, data=x)
    np.testing.assert_allclose(evaluate(stacked, loaded, data=x), want, atol=1e-6)
    symbol, again, _ = rnn.load_rnn_checkpoint([fused], prefix, 2)
    np.testing.assert_allclose(evaluate(symbol, again, data=x), want, atol=1e-6)


def test_sentences_become_numbers() -> None:
    encoded, vocab = rnn.encode_sentences([["a", "b", "c"], ["b", "d"]])
    assert encoded == [[0, 1, 2], [1, 3]]
    assert vocab == {"\n": -1, "a": 0, "b": 1, "c": 2, "d": 3}
    encoded, _ = rnn.encode_sentences([["a", "b"]], invalid_label=1, start_label=0)
    assert encoded == [[0, 2]]
    with pytest.raises(ValueError, match="word 'z' is not in vocab"):
        rnn.encode_sentences([["z"]], vocab={"a": 1})
    encoded, vocab = rnn.encode_sentences([["z", "a"]], vocab={"a": 1, "u": 2}, unknown_token="u")
    assert encoded == [[2, 1]]
    encoded, vocab = rnn.encode_sentences(
        [["z", "y"]], vocab={"a": 1}, unknown_token="u", start_label=5
    )
    assert encoded == [[5, 5]]
    assert vocab == {"a": 1, "u": 5}


def test_buckets_give_padded_sentences_and_the_words_that_follow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sentences = [[1, 2, 3], [4, 5, 6, 7], [1, 2], [3, 4], [5], [6, 7], list(range(1, 9))]
    source = rnn.BucketSentenceIter(sentences, 2, buckets=[5, 3], invalid_label=0)
    assert "discarded 1 sentences" in capsys.readouterr().out
    assert source.default_bucket_key == 5
    assert source.provide_data[0].shape == (2, 5)
    for _ in range(2):
        batches = list(source)
        assert [batch.bucket_key for batch in batches] == [3, 3]
        for batch in batches:
            data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
            assert data.shape == label.shape == batch.provide_data[0].shape == (2, 3)
            assert (label[:, :-1] == data[:, 1:]).all()
            assert (label[:, -1] == 0).all()
        source.reset()
    turned = rnn.BucketSentenceIter(sentences, 2, layout="TN")
    assert turned.buckets == [2]
    batch = next(turned)
    assert batch.data[0].shape == (2, 2)
    assert batch.provide_data[0].layout == "TN"
    assert (batch.label[0].asnumpy()[0] == batch.data[0].asnumpy()[1]).all()
    with pytest.raises(ValueError, match="layout must be .*got 'XY'"):
        rnn.BucketSentenceIter(sentences, 2, layout="XY")
    with pytest.raises(ValueError, match="no length has 50 sentences"):
        rnn.BucketSentenceIter(sentences, 50)


def test_descriptions_and_batches() -> None:
    desc = mx.io.DataDesc("data", (2, 3), layout="TN")
    assert desc == ("data", (2, 3))
    assert repr(desc) == "DataDesc[data,(2, 3),<class 'numpy.float32'>,TN]"
    assert mx.io.DataDesc.get_batch_axis("TNC") == 1
    assert mx.io.DataDesc.get_list([("a", (2,))], [("a", "float16")])[0].dtype == "float16"
    batch = mx.io.DataBatch([values(2, 3)], [values(2)])
    assert str(batch) == "DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]"
    with pytest.raises(TypeError, match="a list of NDArrays"):
        mx.io.DataBatch(values(2, 3))


@pytest.mark.parametrize(
    "cell",
    [rnn.RNNCell(4), rnn.LSTMCell(4), rnn.GRUCell(4), rnn.ConvLSTMCell((1, 3, 8, 8), 4)],
    ids=lambda cell: type(cell).__name__,
)
def test_subclasses_find_and_replace_the_weights(cell) -> None:
    names = [weight.name for weight in (cell._iW, cell._iB, cell._hW, cell._hB)]
    ends = ["i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"]
    assert names == [cell._prefix + end for end in ends]
    cell._hW = mx.sym.Variable("mine") * 2
    output, _ = cell(mx.sym.Variable("data"), cell.begin_state())
    assert "mine" in output.list_arguments()
    assert cell._prefix + "h2h_weight" not in output.list_arguments()


@pytest.mark.parametrize("merged", [True, False])
def test_steps_are_named_as_in_1_9_1(merged):
    with mx.name.NameManager():
        outputs, _ = mx.rnn.GRUCell(4, prefix="l_").unroll(2, mx.sym.var("x"), merge_outputs=merged)
        symbol = outputs if merged else mx.sym.Group(outputs)
        names = symbol.get_internals().list_outputs()
    assert {"split0_output0", "split0_output1", "l_t0__i2h_output"} <= {*names}
    assert {"l_t0__z_act_output", "l_t0_out_output", "l_t1__h2h_slice_output2"} <= {*names}
    expected = ["concat0_output"] if merged else ["l_t0_out_output", "l_t1_out_output"]
    assert symbol.list_outputs() == expected
    with mx.name.NameManager():
        fused = mx.rnn.FusedRNNCell(4, prefix="f_")
        outputs, _ = fused.unroll(2, mx.sym.var("x"), merge_outputs=True)
    assert outputs.list_outputs() == ["swapaxes1_output"]
