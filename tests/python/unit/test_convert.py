"""``python -m mxlite.convert``: formats, maps of names, and files that are refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.convert.__main__ import main
from mxlite.convert.weight_files import read_weights
from mxlite.gluon.contrib.nn import transformer
from mxlite.gluon.model_zoo import vision
from torch_files import Storage, Tensor, state_dict, zip_file

sys.path.append(str(Path(__file__).parents[1] / "gluon"))
import transformer_reference

NUMBERS = np.random.RandomState(0)


def values(*shape: int) -> np.ndarray:
    return NUMBERS.uniform(-1, 1, shape).astype("float32")


def write_torch(folder: Path, arrays: Any) -> str:
    path = folder / "model.pth"
    path.write_bytes(zip_file(state_dict(arrays)))
    return str(path)


def test_types_and_ties_of_state_dicts_are_kept(tmp_path: Path) -> None:
    weight = values(2, 3)
    content = state_dict({"a": weight, "b": weight, "n": np.array(7, "int64")})
    content["half"] = Tensor(Storage("h", np.array([0x3FC0, 0xC000], "<u2"), "bfloat16"))
    content["turned"] = Tensor(content["a"].storage, (3, 2), (1, 3))
    path = tmp_path / "model.bin"
    path.write_bytes(zip_file(content))
    found = read_weights(str(path))
    assert found["a"] is found["b"] and found["n"].asscalar() == 7
    assert found["half"].astype("float32").asnumpy().tolist() == [1.5, -2]
    assert np.array_equal(found["turned"].asnumpy(), weight.T)


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["params", "safetensors", "npz"])
def test_formats_are_converted_into_each_other(tmp_path: Path, suffix: str) -> None:
    if suffix == "safetensors":
        pytest.importorskip("safetensors")
    arrays = {"a.weight": nd.array(values(2, 3)), "b": nd.array([1, 2], dtype="int64"),
              "c": nd.ones((2,), dtype="float16")}  # fmt: skip
    source, middle, last = (str(tmp_path / f"x.{end}") for end in ("params", suffix, "y.params"))
    nd.save(source, arrays)
    assert main([source, middle]) == 0
    assert main([middle, last]) == 0
    found = nd.load(last)
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name].asnumpy(), array.asnumpy())


def test_names_of_checkpoints_lose_their_kinds_outside_of_params(
    tmp_path: Path, capsys: Any
) -> None:
    source, target = str(tmp_path / "x-0000.params"), str(tmp_path / "x.npz")
    nd.save(source, {"arg:w": nd.ones(1), "aux:m": nd.zeros(1)})
    assert main([source, target]) == 0
    assert sorted(np.load(target)) == ["m", "w"]
    assert main([source, str(tmp_path / "y.params")]) == 0
    assert [*nd.load(tmp_path / "y.params")] == ["arg:w", "aux:m"]
    nd.save(source, {"arg:w": nd.ones(1), "aux:w": nd.zeros(1)})
    assert main([source, target]) == 1
    assert "aux:w and another array would both be w" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.params", "x.npz"], "absent.params"),
        (
            ["a.params", "x.txt"],
            "OUT must end with one of .params, .safetensors, .npz, got 'x.txt'",
        ),
        (["list.params", "x.npz"], "must hold arrays with names, got a list of 1"),
        (["half.params", "x.npz"], "must be a type of NumPy|bfloat16"),
        (["a.params", "no/folder.npz"], "no/folder.npz"),
        (["a.params", "x.npz", "--map", "resnet"], "must have fc.weight and layers"),
        (
            ["a.params", "x.npz", "--map", "bert"],
            "word_embeddings.weight' of bert must have 2 axes",
        ),
        (["a.params", "x.npz", "--map", "iresnet"], "no name for a"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, arguments: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    nd.save("a.params", {"a": nd.ones(1)})
    nd.save("list.params", [nd.ones(1)])
    nd.save("half.params", {"a": nd.ones(1).astype("bfloat16")})
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("convert: ") and any(part in error for part in message.split("|"))
    assert sorted(os.listdir()) == ["a.params", "half.params", "list.params"]


# -- maps of names ---------------------------------------------------------------------------------

_BACK = {"gamma": "weight", "beta": "bias"}


def torch_names(net: mx.gluon.Block) -> dict[str, np.ndarray]:
    """Return random values with the names and shapes of PyTorch for a network of Gluon."""
    arrays = {}
    for name, param in net._collect_params_with_prefix().items():
        start, _, leaf = name.rpartition(".")
        arrays[f"{start}.{_BACK.get(leaf, leaf)}"] = values(*param.shape)
        if leaf == "running_var":
            arrays[f"{start}.num_batches_tracked"] = np.array(5, "int64")
    return arrays


def check_back(source: str, made: str, folder: Path, name: str) -> None:
    """Convert a file back, and compare it with its source, which has the other library's names."""
    target = str(folder / "back.npz")
    assert main([made, target, "--map", name, "--back"]) == 0
    expected, found = read_weights(source), read_weights(target)
    plain = {key.removeprefix("module."): array for key, array in expected.items()}
    kept = {key: array for key, array in plain.items() if "num_batches" not in key}
    assert sorted(found) == sorted(kept)
    for key, array in kept.items():
        assert np.array_equal(found[key].asnumpy(), array.asnumpy()), key


def test_resnets_of_torchvision_load_into_the_zoo(tmp_path: Path, capsys: Any) -> None:
    net = vision.resnet50_v1b(classes=7)
    arrays = torch_names(net)
    source = write_torch(tmp_path, {f"module.{name}": array for name, array in arrays.items()})
    target = str(tmp_path / "net.params")
    assert main([source, target, "--map", "resnet", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == "name in IN name in OUT shape type".split()
    row = next(line.split() for line in lines if line.startswith("bn1.weight"))
    assert row == ["bn1.weight", "bn1.gamma", "64", "float32"]
    assert not os.path.exists(target)
    assert main([source, target, "--map", "resnet"]) == 0
    check_back(source, target, tmp_path, "resnet")
    net.load_parameters(target)
    found = net.layer4[2].bn3.gamma.data().asnumpy()
    assert np.array_equal(found, arrays["layer4.2.bn3.weight"])

    arrays["layer4.2.bn3.weight"] = values(3)
    arrays["extra.weight"] = values(3, 2)
    del arrays["conv1.weight"]
    source = write_torch(tmp_path, arrays)
    os.remove(target)
    capsys.readouterr()
    assert main([source, target, "--map", "resnet"]) == 1
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "convert: conv1.weight is missing",
        "convert: layer4.2.bn3.gamma must have shape (2048,), got (3,)",
        "convert: no name for extra.weight",
    ]
    assert not os.path.exists(target)


def test_layers_have_the_names_of_gluon(tmp_path: Path) -> None:
    class Net(mx.gluon.nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.norm = mx.gluon.nn.LayerNorm(in_channels=4)
            self.act = mx.gluon.nn.PReLU()
            self.rnn = mx.gluon.rnn.LSTM(3, 2, input_size=4, bidirectional=True)
            self.one = mx.gluon.rnn.LSTM(3, 1, input_size=4, projection_size=2)
            self.head = mx.gluon.nn.Dense(2, in_units=6)

    shapes = {"norm.weight": (4,), "norm.bias": (4,), "act.weight": (1,), "head.weight": (2, 6),
              "head.bias": (2,)}  # fmt: skip
    for layer, size in ((0, 4), (1, 6)):
        for way in ("", "_reverse"):
            shapes[f"rnn.weight_ih_l{layer}{way}"] = (12, size)
            shapes[f"rnn.weight_hh_l{layer}{way}"] = (12, 3)
            shapes[f"rnn.bias_ih_l{layer}{way}"] = shapes[f"rnn.bias_hh_l{layer}{way}"] = (12,)
    shapes.update({"one.weight_ih_l0": (12, 4), "one.weight_hh_l0": (12, 2),
                   "one.bias_ih_l0": (12,), "one.bias_hh_l0": (12,),
                   "one.weight_hr_l0": (2, 3)})  # fmt: skip
    arrays = {name: values(*shape) for name, shape in shapes.items()}
    target = str(tmp_path / "net.params")
    source = write_torch(tmp_path, arrays)
    assert main([source, target, "--map", "layers"]) == 0
    check_back(source, target, tmp_path, "layers")
    net = Net()
    net.load_parameters(target)
    for array, name in (
        (net.rnn.r1_h2h_weight, "rnn.weight_hh_l1_reverse"),
        (net.rnn.l0_i2h_bias, "rnn.bias_ih_l0"),
        (net.one.l0_h2r_weight, "one.weight_hr_l0"),
    ):
        assert np.array_equal(array.data().asnumpy(), arrays[name]), name


def test_iresnet_has_the_names_of_the_symbols_for_mxnet(tmp_path: Path, capsys: Any) -> None:
    norms, arrays = ["bn1", "bn2", "features"], {"conv1.weight": values(8, 3, 3, 3)}
    arrays.update({"prelu.weight": values(8), "fc.weight": values(5, 8), "fc.bias": values(5)})
    for stage, depth in enumerate((2, 1, 1, 1), 1):
        for block in range(depth):
            place = f"layer{stage}.{block}"
            norms += [f"{place}.bn{number}" for number in (1, 2, 3)]
            norms += [f"{place}.downsample.1"] if block == 0 else []
            names = ["conv1", "conv2", *(["downsample.0"] if block == 0 else [])]
            arrays.update({f"{place}.{name}.weight": values(8, 8, 3, 3) for name in names})
            arrays[f"{place}.prelu.weight"] = values(8)
    for norm in norms:
        for leaf in ("weight", "bias", "running_mean", "running_var"):
            arrays[f"{norm}.{leaf}"] = values(8)
        arrays[f"{norm}.num_batches_tracked"] = np.array(1, "int64")
    source, target = write_torch(tmp_path, arrays), str(tmp_path / "model-0000.params")
    assert main([source, target, "--map", "iresnet"]) == 0
    check_back(source, target, tmp_path, "iresnet")
    found = nd.load(target)
    for ours, theirs in {
        "arg:conv0_weight": "conv1.weight", "aux:bn0_moving_var": "bn1.running_var",
        "arg:stage1_unit2_relu1_gamma": "layer1.1.prelu.weight",
        "arg:stage4_unit1_conv1sc_weight": "layer4.0.downsample.0.weight",
        "arg:stage4_unit1_sc_beta": "layer4.0.downsample.1.bias", "arg:bn1_gamma": "bn2.weight",
        "arg:pre_fc1_bias": "fc.bias", "aux:fc1_moving_mean": "features.running_mean",
    }.items():  # fmt: skip
        assert np.array_equal(found[ours].asnumpy(), arrays[theirs]), ours
    assert len(found) == len([name for name in arrays if "tracked" not in name])
    del arrays["layer2.0.bn3.bias"]
    assert main([write_torch(tmp_path, arrays), target, "--map", "iresnet"]) == 1
    assert "convert: layer2.0.bn3.bias is missing" in capsys.readouterr().err


STATE = transformer_reference.bert_state(30, 12, 20, 2, 10)


def test_bert_for_pretraining_and_its_encoder(tmp_path: Path, capsys: Any) -> None:
    target = str(tmp_path / "bert.params")
    tied = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
    source = write_torch(tmp_path, {n: a for n, a in STATE.items() if n not in tied})
    assert main([source, target, "--map", "bert"]) == 0
    check_back(source, target, tmp_path, "bert")
    net = transformer.BERTForPretraining(transformer.BERTModel(30, 12, 20, 2, 3, 10))
    expected = transformer.BERTForPretraining(transformer.BERTModel(30, 12, 20, 2, 3, 10))
    net.load_parameters(target)
    transformer.load_weights(expected, STATE, "bert")
    for one, other in zip(net.collect_params().values(), expected.collect_params().values()):
        assert np.array_equal(one.data().asnumpy(), other.data().asnumpy())

    encoder = {name: array for name, array in STATE.items() if not name.startswith("cls.")}
    assert main([write_torch(tmp_path, encoder), target, "--map", "bert"]) == 0
    transformer.BERTModel(30, 12, 20, 2, 3, 10).load_parameters(target)
    capsys.readouterr()
    encoder["classifier.weight"] = values(2, 12)
    assert main([write_torch(tmp_path, encoder), target, "--map", "bert"]) == 1
    assert "no name for classifier.weight" in capsys.readouterr().err
    del encoder["bert.encoder.layer.1.output.dense.bias"]
    assert main([write_torch(tmp_path, encoder), target, "--map", "bert"]) == 1
    assert "missing encoder.layer.1.output.dense.bias" in capsys.readouterr().err


def test_gpt2_ties_its_weights(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    state = transformer_reference.gpt2_state(30, 12, 2, 10)
    target = str(tmp_path / "gpt.safetensors")
    assert main([write_torch(tmp_path, state), target, "--map", "gpt2"]) == 0
    with safetensors.safe_open(target, "np") as file:
        assert file.metadata()["output_weight"] == "word_embed.weight"
    net = transformer.GPTModel(30, 12, 48, 2, 3, 10)
    net.load_parameters(target)
    found = net.layers[1].attention.qkv.weight.data().asnumpy()
    name = next(name for name in state if name.endswith("h.1.attn.c_attn.weight"))
    assert np.array_equal(found, state[name].T)
    plain = {
        name.removeprefix("transformer."): array
        for name, array in state.items()
        if name != "lm_head.weight" and not name.endswith((".attn.bias", ".attn.masked_bias"))
    }
    check_back(write_torch(tmp_path, plain), target, tmp_path, "gpt2")


def test_what_cannot_go_back_is_named(tmp_path: Path, capsys: Any) -> None:
    source, target = str(tmp_path / "x.params"), str(tmp_path / "x.npz")
    net = transformer.GPTModel(30, 12, 48, 2, 3, 10)
    net.initialize()
    arrays = {name: p.data() for name, p in net._collect_params_with_prefix().items()}
    del arrays["final_norm.gamma"]
    nd.save(source, {**arrays, "more": nd.ones(1)})
    assert main([source, target, "--map", "gpt2", "--back"]) == 1
    assert "missing final_norm.gamma; unexpected more" in capsys.readouterr().err
    nd.save(source, {"more": nd.ones(1)})
    assert main([source, target, "--map", "bert", "--back"]) == 1
    assert "'word_embed.weight' must be a matrix among the arrays" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([source, target, "--back"])
