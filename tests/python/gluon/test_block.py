"""Blocks: names, structure, hooks, parameter files, summary."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from blocks import ready, sequential
from mxlite import gluon, nd
from mxlite.base import FileFormatError, MXNetError, ShapeError
from mxlite.gluon import nn
from numpy.testing import assert_allclose, assert_array_equal

DATA = Path(__file__).parents[2] / "data" / "mxnet_1_9_1"


def in_new_counter(make: Any) -> Any:
    """Run in a thread of its own, where automatic names begin at 0."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


def small_net(**kwargs: Any) -> nn.HybridSequential:
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(nn.Conv2D(2, 3, in_channels=2), nn.BatchNorm(in_channels=2))
        net.add(nn.Dense(2, in_units=18))
    return net


def net_with_an_empty_prefix() -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="model_")
    with net.name_scope():
        features = nn.HybridSequential(prefix="")
        with features.name_scope():
            features.add(nn.Dense(1))
        net.add(features)
    return net


PREFIX = "hybridsequential0_"
NORM = "batchnorm0_gamma batchnorm0_beta batchnorm0_running_mean batchnorm0_running_var"
NAMES = f"conv0_weight conv0_bias {NORM} dense0_weight dense0_bias"


@pytest.mark.parametrize(
    ("make", "select", "prefix", "names"),
    [
        (small_net, None, PREFIX, NAMES),
        # Children outside of a name scope have names of their own.
        (lambda: sequential(nn.PReLU(), nn.PReLU()), None, "prelu", "0_alpha 1_alpha"),
        (net_with_an_empty_prefix, None, "model_dense0_", "weight bias"),
        # Patterns are compared with the begin of the name.
        (small_net, ".*weight|.*gamma", PREFIX, "conv0_weight batchnorm0_gamma dense0_weight"),
        (small_net, "weight", "", ""),
    ],
)
def test_names_are_those_of_mxnet(make: Any, select: Any, prefix: str, names: str) -> None:
    found = in_new_counter(make).collect_params(select)
    assert list(found) == [prefix + name for name in names.split()]


def test_hints_are_those_of_mxnet() -> None:
    layers = {
        "conv0_": lambda: nn.Conv2DTranspose(1, 2),
        "pool0_": nn.GlobalAvgPool2D,
        "tanh0_": lambda: nn.Activation("tanh"),
        "leakyrelu0_": lambda: nn.LeakyReLU(0.1),
        "dropout0_": lambda: nn.Dropout(0.1),
        "l2loss0_": gluon.loss.L2Loss,
        "softmaxcrossentropyloss0_": gluon.loss.SoftmaxCELoss,
        "hybridconcurrent0_": gluon.contrib.nn.HybridConcurrent,
    }
    for prefix, make in layers.items():
        assert in_new_counter(make).prefix == prefix


def test_an_activation_inside_a_layer_has_the_layer_s_prefix() -> None:
    layer = in_new_counter(lambda: nn.Dense(2, activation="relu"))
    assert layer.act.prefix == "dense0_relu_"
    assert layer.name == "dense0"


def test_parameters_are_shared_through_params() -> None:
    one = nn.Dense(2, in_units=3, prefix="a_")
    two = nn.Dense(2, in_units=3, prefix="b_", params=one.params)
    assert two.weight is one.weight
    net = nn.Sequential()
    net.add(one, two)
    assert list(net.collect_params()) == ["a_weight", "a_bias"]


class Pair(gluon.Block):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.left = nn.Dense(2, in_units=3)
            self.right = nn.Dense(2, in_units=3)
            self.scale = self.params.get("scale", shape=(1,), init="ones")

    def forward(self, x: Any) -> Any:
        return (self.left(x) + self.right(x)) * self.scale.data(x.ctx)


def test_attributes_register_blocks_and_parameters() -> None:
    pair = Pair(prefix="p_")
    names = sorted(pair._collect_params_with_prefix())
    assert names == ["left.bias", "left.weight", "right.bias", "right.weight", "scale"]
    pair.initialize("ones")
    assert_array_equal(pair(nd.ones((1, 3))).asnumpy(), [[6, 6]])


def test_an_attribute_keeps_its_kind() -> None:
    pair = Pair()
    with pytest.raises(TypeError, match="Changing attribute type for left from .*Dense.* to .*int"):
        pair.left = 3
    with pytest.raises(MXNetError, match="Overriding Parameter attribute scale is not allowed"):
        pair.scale = gluon.Parameter("other", shape=(1,))


def test_the_tree_is_shown() -> None:
    net = sequential(nn.Dense(4, activation="relu", in_units=3), nn.HybridSequential())
    net[1].add(nn.Dropout(0.5))
    assert repr(net) == (
        "HybridSequential(\n"
        "  (0): Dense(3 -> 4, Activation(relu))\n"
        "  (1): HybridSequential(\n"
        "    (0): Dropout(p = 0.5, axes=())\n"
        "  )\n"
        ")"
    )


def test_a_sequential_has_length_items_and_slices() -> None:
    net = nn.HybridSequential()
    layers = [nn.Dense(size) for size in (1, 2, 3)]
    net.add(*layers)
    assert len(net) == 3
    assert net[1] is layers[1]
    assert net[-1] is layers[2]
    assert list(net) == layers
    assert list(net[1:]) == layers[1:]
    assert type(net[1:]) is nn.HybridSequential


def test_apply_reaches_children_before_the_parent() -> None:
    seen: list[str] = []
    net = Pair(prefix="p_")
    assert net.apply(lambda block: seen.append(block.name)) is net
    assert seen == ["p_dense0", "p_dense1", "p"]


def test_hooks_see_inputs_and_outputs_and_can_be_detached() -> None:
    layer = ready(nn.Dense(1, in_units=1), "ones")
    calls: list[str] = []
    before = layer.register_forward_pre_hook(lambda block, args: calls.append("before"))
    after = layer.register_forward_hook(
        lambda block, args, out: calls.append(f"after {args[0].shape} {out.shape}")
    )
    layer(nd.ones((2, 1)))
    assert calls == ["before", "after (2, 1) (2, 1)"]
    before.detach()
    after.detach()
    layer(nd.ones((2, 1)))
    assert len(calls) == 2


def test_cast_keeps_batch_norm_in_float32() -> None:
    net = ready(small_net())
    net.cast("float16")
    kinds = {name: param.data().dtype for name, param in net._collect_params_with_prefix().items()}
    assert kinds["0.weight"] == kinds["2.bias"] == np.float16
    assert kinds["1.gamma"] == kinds["1.running_var"] == np.float32


def test_initialize_chooses_by_the_parameter_s_own_initializer() -> None:
    layer = ready(nn.Dense(2, in_units=3, bias_initializer="ones"), mx.init.Constant(5))
    assert layer.weight.data().asnumpy().min() == 5
    assert_array_equal(layer.bias.data().asnumpy(), [1, 1])


def test_summary_is_the_table_of_mxnet(capsys: pytest.CaptureFixture[str]) -> None:
    net = ready(small_net())
    net.summary(nd.ones((1, 2, 5, 5)))
    lines = capsys.readouterr().out.splitlines()
    for number, (layer, shape, count) in {
        1: ("Layer (type)", "Output Shape", "Param #"),
        3: ("Input", "(1, 2, 5, 5)", "0"),
        4: ("Conv2D-1", "(1, 2, 3, 3)", "38"),
    }.items():
        assert lines[number] == f"{layer:>20}{shape:>44}{count:>16}"
    for total in ("Total params: 84", "Trainable params: 80", "Non-trainable params: 4"):
        assert f"   {total}" in lines


def test_summary_of_a_hybridized_block_is_refused() -> None:
    net = ready(small_net(), hybridize=True)
    with pytest.raises(AssertionError, match="is hybridized; print the summary before") as caught:
        net.summary(nd.ones((1, 2, 5, 5)))
    assert isinstance(caught.value, MXNetError)


def mxnet_output(net: gluon.Block) -> None:
    arrays = nd.load(DATA / "net_io.params")
    assert_allclose(net(arrays["x"]).asnumpy(), arrays["y"].asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["net.params", "net_prefixed.params", "net_export-0002.params"])
def test_files_of_mxnet_load_whatever_names_they_have(name: str) -> None:
    net = small_net()
    net.load_parameters(DATA / name)
    mxnet_output(net)


@pytest.mark.parametrize("prefix", ["first7_", "other_", "very_long_prefix_"])
def test_prefixed_names_load_into_a_net_with_another_prefix(prefix: str, tmp_path: Path) -> None:
    one, two = small_net(prefix="first7_"), small_net(prefix=prefix)
    one.initialize("xavier")
    for save in (one.collect_params().save, one.save_params, one.save_parameters):
        save(str(tmp_path / "a"))
        two.load_parameters(tmp_path / "a")
        for mine, theirs in zip(one.collect_params().values(), two.collect_params().values()):
            assert_array_equal(mine.data().asnumpy(), theirs.data().asnumpy())


def test_a_file_is_written_as_mxnet_writes_it(tmp_path: Path) -> None:
    net = small_net()
    net.load_parameters(DATA / "net.params")
    net.save_parameters(tmp_path / "b.params")
    assert (tmp_path / "b.params").read_bytes() == (DATA / "net.params").read_bytes()


def test_loading_gives_deferred_parameters_their_shape() -> None:
    net = ready(sequential(nn.Conv2D(2, 3), nn.BatchNorm(), nn.Dense(2)))
    net.load_parameters(DATA / "net.params")
    assert net[2].weight.shape == (2, 18)
    mxnet_output(net)


def test_shared_parameters_are_saved_once_if_wanted(tmp_path: Path) -> None:
    def make() -> nn.Sequential:
        net = nn.Sequential()
        one = nn.Dense(2, in_units=2)
        net.add(one, nn.Dense(2, in_units=2, params=one.params))
        return net

    net, other = make(), make()
    net.initialize()
    net.save_parameters(tmp_path / "a", deduplicate=True)
    assert len(nd.load(tmp_path / "a")) == 2
    other.load_parameters(tmp_path / "a")
    assert_array_equal(other[0].weight.data().asnumpy(), net[1].weight.data().asnumpy())


def test_names_and_shapes_that_do_not_fit_are_named(tmp_path: Path) -> None:
    net = ready(nn.Dense(2, in_units=2), "zeros")
    path = tmp_path / "a.params"
    nd.save(path, {"wieght": nd.ones((2, 2)), "bias": nd.ones((2,))})
    for options, builtin, words in (
        ({}, AssertionError, r"'weight' is missing in file '.*a\.params'.*did you mean 'wieght'"),
        ({"allow_missing": True}, ValueError, r"'wieght' loaded from .*a\.params' is.* 'weight'"),
    ):
        with pytest.raises(MXNetError, match=words) as caught:
            net.load_parameters(path, **options)
        assert isinstance(caught.value, builtin)
        assert net.bias.data().asnumpy().max() == 0  # nothing was changed
    net.load_parameters(path, allow_missing=True, ignore_extra=True)
    assert_array_equal(net.bias.data().asnumpy(), [1, 1])
    nd.save(path, {"weight": nd.ones((2, 3)), "bias": nd.ones((2,))})
    with pytest.raises(ShapeError, match=r"_weight'.*expected \(2, 2\) vs saved \(2, 3\).*file '"):
        net.load_parameters(path)


@pytest.mark.parametrize("dtype", ["flt", "complex64", 7, [1]])
def test_casts_to_no_type_are_refused_at_the_call(dtype: Any) -> None:
    dense = gluon.nn.Dense(2, in_units=2, prefix="fc_")
    for owner, name in (
        (dense, "Dense.cast of 'fc_?'"),
        (dense.weight, "Parameter.cast of 'fc_weight'"),
        (gluon.nn.BatchNorm(), "BatchNorm.cast of"),
        (gluon.rnn.LSTM(2), "LSTM.cast of"),
    ):
        with pytest.raises(ValueError, match=f"{name}.*an element type such as 'float32'"):
            owner.cast(dtype)
    dense.initialize()
    assert dense(mx.nd.ones((1, 2))).dtype == np.float32


def test_types_are_cast_on_request_only(tmp_path: Path) -> None:
    net = ready(nn.Dense(2, in_units=2))
    net.cast("float16")
    net.save_parameters(tmp_path / "a")
    other = nn.Dense(2, in_units=2)
    with pytest.raises(TypeError, match="expected float32 vs saved float16. Set cast_dtype=True"):
        other.load_parameters(tmp_path / "a")
    other.load_parameters(tmp_path / "a", cast_dtype=True)
    assert other.weight.data().dtype == np.float32
    other.load_parameters(tmp_path / "a", cast_dtype=True, dtype_source="saved")
    assert other.weight.data().dtype == np.float16


def test_another_context_than_before_is_refused(tmp_path: Path) -> None:
    net = ready(nn.Dense(2, in_units=2), ctx=mx.cpu(0))
    net.save_parameters(tmp_path / "a")
    with pytest.raises(ValueError, match=r"on \[cpu\(1\)\] because it was previously"):
        net.load_parameters(tmp_path / "a", ctx=mx.cpu(1))


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (lambda file: file.read_bytes()[:500], FileFormatError, r"a\.params', offset \d+"),
        (lambda file: b"not a parameter file", FileFormatError, r"a\.params' is no \.params file"),
        (None, TypeError, r"a\.params' must hold a dict .*list of 1 arrays without names"),
    ],
)
def test_files_that_hold_no_parameters_are_named(
    tmp_path: Path, content: Any, error: type[Exception], words: str
) -> None:
    path = tmp_path / "a.params"
    with pytest.raises(FileNotFoundError, match=r"a\.params' does not exist"):
        small_net().load_parameters(path)
    if content is None:
        nd.save(path, [nd.ones((1,))])
    else:
        path.write_bytes(content(DATA / "net.params"))
    with pytest.raises(error, match=words):
        small_net().load_parameters(path)


def test_a_model_loads_although_its_attributes_were_renamed(tmp_path: Path) -> None:
    class Renamed(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Dense(2, in_units=3)
            self.second = nn.Dense(2, in_units=3)
            self.factor = self.params.get("factor", shape=(1,))

    Renamed.__name__ = "Pair"
    prefix = str(tmp_path / "m")
    pair, renamed = Pair(), Renamed()
    pair.initialize("xavier")
    pair.save(prefix)
    renamed.load(prefix)
    assert_array_equal(renamed.second.weight.data().asnumpy(), pair.right.weight.data().asnumpy())
    with pytest.raises(FileFormatError, match="must be a Pair, as .* describes it, got a Dense"):
        nn.Dense(1).load(prefix)
    with pytest.raises(FileNotFoundError, match="no-model.json' does not exist"):
        pair.load(str(tmp_path / "no"))
    tree = json.loads(Path(f"{prefix}-model.json").read_text())
    wrong = [json.dumps({**tree, "children": found}) for found in ([[1]] * 2, [["a", 5]] * 2, "ab")]
    for damage in ("[" * 100_000, *wrong):
        Path(f"{prefix}-model.json").write_text(damage)
        with pytest.raises(FileFormatError, match="model.json'"):
            pair.load(prefix)


class Hidden(nn.Block):
    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers


@pytest.mark.parametrize("layers", [[nn.Dense(2)], {"a": [1, (nn.Dense(2),)]}])
def test_blocks_in_containers_are_warned_of(layers: Any) -> None:
    with pytest.warns(UserWarning, match='"Hidden.layers" is an unregistered container'):
        Hidden(layers).collect_params()


def test_registered_blocks_in_containers_are_no_cause_of_warnings(recwarn: Any) -> None:
    block = Hidden([nn.Dense(2), 3, {"a": "text"}])
    block.register_child(block.layers[0])
    outer = nn.Sequential()
    outer.add(block)
    outer.collect_params()
    assert not recwarn.list


@pytest.mark.parametrize("container", [nn.Sequential, nn.HybridSequential])
@pytest.mark.parametrize(
    ("child", "words"),
    [([nn.Dense(2)], "one by one"), (nd.relu, r"nn.Lambda\(function\)"), (None, "make it a Block")],
)
def test_children_must_be_blocks(container: Any, child: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"Sequential: child must be a Block, got a .*{words}"):
        container().add(child)


class WithOwnParameter(nn.Block):
    def __init__(self, registered: bool) -> None:
        super().__init__()
        if registered:
            self.bias = self.params.get("bias", shape=(2,), init="zeros")
        else:
            self.bias = gluon.Parameter("bias", shape=(2,), init="zeros")


def test_a_parameter_that_initialize_leaves_out_is_warned_of(recwarn: Any) -> None:
    outer = nn.Sequential()
    outer.add(WithOwnParameter(registered=False))
    with pytest.warns(UserWarning, match=r'"0.bias" of Sequential.*self.params.get\(\'bias\''):
        outer.initialize()
    outer[0].bias.initialize()
    outer.initialize(force_reinit=True)
    WithOwnParameter(registered=True).initialize()
    assert not recwarn.list
