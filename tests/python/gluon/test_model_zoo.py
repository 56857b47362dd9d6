"""The model zoo against facts of MXNet 1.9.1 and GluonCV, and its list of operators."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite.gluon.model_zoo import get_model, model_store, vision
from processes import run_python

DATA = Path(__file__).parents[2] / "data"
sys.path.insert(0, str(DATA))
import make_model_zoo

with gzip.open(DATA / "model_zoo_1.9.1.json.gz", "rt", encoding="utf-8") as file:
    FACTS: dict[str, Any] = json.load(file)["networks"]

# Share of the output's size; rounding errors grow with depth.
DEEP = 2e-4
SHALLOW = 5e-5
# One of each structure runs always; the others are marked slow.
QUICK = """alexnet mobilenet0.25 mobilenetv2_0.25 resnet18_v1 resnet18_v1b resnet18_v2
    resnet50_v1 resnet50_v1b resnet50_v2 squeezenet1.1""".split()
# Networks of MXNet's example symbols: image size and number of parameter values, counted by
# MXNet 1.9.1 when these definitions run on it.
EXTRA = {"inception_bn": (224, 11315272), "inception_v4": (299, 55030984)}
EXTRA["inception_resnet_v2"] = (224, 56161580)


@pytest.fixture(autouse=True)
def _networks_are_freed() -> Iterator[None]:
    yield
    gc.collect()  # blocks are cycles; ten networks are gigabytes


def slow_unless(names: Any, name: str) -> Any:
    return name if name in names else pytest.param(name, marks=pytest.mark.slow)


def build(name: str, size: int) -> tuple[Any, dict[str, Any]]:
    """Return a network as in a new process, its shapes known, and its parameters by dotted name."""
    with mx.name.NameManager():
        net = get_model(name)
    net.initialize()
    net.infer_shape(mx.nd.zeros((1, 3, size, size)))
    return net, net._collect_params_with_prefix()


def fill(parameters: dict[str, Any]) -> None:
    for name, value in parameters.items():
        value.set_data(mx.nd.array(make_model_zoo.parameter(name, value.shape)))


@pytest.mark.parametrize("name", sorted(FACTS))
def test_names_shapes_and_repr_are_those_of_1_9_1(name: str) -> None:
    facts = FACTS[name]
    net, parameters = build(name, facts["size"])
    assert list(parameters) == facts["names"]
    assert [list(value.shape) for value in parameters.values()] == facts["shapes"]
    assert net.prefix == facts["prefix"]
    assert [value.name for value in parameters.values()] == facts["prefixed"]
    assert list(net.collect_params()) == facts["prefixed"]
    assert plain_repr(repr(net)) == plain_repr(facts["repr"])


def plain_repr(text: str) -> str:
    """Drop what mxlite writes better: lines inside empty brackets, a group's width as input."""
    text = re.sub(r"\(\n\s*\n\s*\)", "()", text)
    return re.sub(r"Conv2D\(\d+ -> (.*groups=)", r"Conv2D(\1", text)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("name", [slow_unless(QUICK, name) for name in sorted(FACTS)])
def test_outputs_are_those_of_1_9_1(name: str, hybrid: bool) -> None:
    facts = FACTS[name]
    net, parameters = build(name, facts["size"])
    fill(parameters)
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    output = net(mx.nd.array(make_model_zoo.image(facts["size"]))).asnumpy()[0]
    rtol = DEEP if len(facts["names"]) > 500 else SHALLOW
    assert np.linalg.norm(output) == pytest.approx(facts["norm"], rel=rtol)
    # Absolute error as a share of the output's size: single entries may be near zero.
    scale = facts["norm"] / np.sqrt(output.size)
    np.testing.assert_allclose(output[:8] / scale, np.array(facts["outputs"]) / scale, atol=rtol)


@pytest.mark.parametrize("name", sorted(EXTRA))
def test_networks_of_the_example_symbols_have_their_parameters(name: str) -> None:
    size, count = EXTRA[name]
    _, parameters = build(name, size)
    assert sum(int(np.prod(value.shape)) for value in parameters.values()) == count


@pytest.mark.parametrize("name", [slow_unless({"inception_bn"}, name) for name in sorted(EXTRA)])
def test_hybrid_equals_eager_on_the_example_symbols(name: str) -> None:
    size, _ = EXTRA[name]
    net, parameters = build(name, size)
    fill(parameters)
    data = mx.nd.array(make_model_zoo.image(size))
    eager = net(data).asnumpy()
    net.hybridize()
    hybrid = net(data).asnumpy()
    assert hybrid.shape == (1, 1000)
    np.testing.assert_allclose(hybrid, eager, atol=DEEP * np.abs(eager).max())


def test_every_name_of_1_9_1_is_there_in_any_case() -> None:
    assert set(FACTS) <= set(vision.MODELS)
    assert type(get_model("MobileNet0.25")) is vision.MobileNet


def test_all_networks_take_the_number_of_classes() -> None:
    for name in vision.MODELS:
        size = 299 if name in ("inceptionv3", "inception_v4") else 224
        net = get_model(name, classes=7)
        net.initialize()
        net.infer_shape(mx.nd.zeros((1, 3, size, size)))
        last = list(net._collect_params_with_prefix().values())[-1]
        assert last.shape[0] == 7, name


@pytest.mark.parametrize("version", [1, 2])
def test_thumbnail_resnet_takes_small_images(version: int) -> None:
    net = vision.get_resnet(version, 18, thumbnail=True, classes=10)
    net.initialize()
    assert net(mx.nd.zeros((2, 3, 32, 32))).shape == (2, 10)


def test_unknown_network_suggests_near_names() -> None:
    with pytest.raises(ValueError, match=r"'resnet50v1'; did you mean 'resnet50_v1'") as error:
        get_model("resnet50v1")
    assert isinstance(error.value, mx.base.MXNetError)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vision.get_resnet(3, 18), "version must be one of 1, 2.*, got 3"),
        (lambda: vision.get_resnet(1, 20), "num_layers must be one of 18, 34.*, got 20"),
        (lambda: vision.get_vgg(12), "num_layers must be one of 11, 13, 16, 19.*, got 12"),
        (lambda: vision.SqueezeNet("2.0"), "version must be one of 1.0, 1.1.*, got '2.0'"),
        (
            lambda: vision.ResNetV1(vision.BasicBlockV1, [1, 1], [8, 8]),
            "channels must have 3 entries for 2 stages, got \\[8, 8\\]",
        ),
    ],
)
def test_impossible_variants_say_what_exists(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_pretrained_without_a_file_names_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        get_model("squeezenet1.1", pretrained=True, root=str(tmp_path))
    assert str(tmp_path / "squeezenet1.1-33ba0f93.params") in str(error.value)
    assert str(tmp_path / "squeezenet1.1.params") in str(error.value)
    assert isinstance(error.value, mx.base.MXNetError)


@pytest.mark.parametrize("hashed", [True, False])
def test_pretrained_loads_either_file(tmp_path: Path, hashed: bool, monkeypatch: Any) -> None:
    net, parameters = build("mobilenet0.25", 64)
    fill(parameters)
    data = mx.nd.array(make_model_zoo.image(64))
    expected = net(data).asnumpy()
    saved = tmp_path / "mobilenet0.25.params"
    net.save_parameters(str(saved))
    digits = hashlib.sha1(saved.read_bytes()).hexdigest()[:8]
    monkeypatch.setitem(model_store._SHORT_SHA1, "mobilenet0.25", digits)
    if hashed:
        saved.rename(tmp_path / f"mobilenet0.25-{digits}.params")
    loaded = get_model("mobilenet0.25", pretrained=True, root=str(tmp_path))
    np.testing.assert_array_equal(loaded(data).asnumpy(), expected)


def test_published_file_is_taken_before_the_plain_one(tmp_path: Path, monkeypatch: Any) -> None:
    digits = hashlib.sha1(b"").hexdigest()[:8]
    monkeypatch.setitem(model_store._SHORT_SHA1, "resnet18_v1", digits)
    for stem in (f"resnet18_v1-{digits}", "resnet18_v1"):
        (tmp_path / f"{stem}.params").write_bytes(b"")
    path = model_store.get_model_file("resnet18_v1", root=str(tmp_path))
    assert Path(path).name == f"resnet18_v1-{digits}.params"


@pytest.mark.parametrize("stem", ["resnet18_v1-a0666292", "resnet18_v1"])
def test_a_file_with_another_checksum_is_refused(tmp_path: Path, stem: str) -> None:
    (tmp_path / f"{stem}.params").write_bytes(b"changed")
    with pytest.raises(ValueError, match="SHA-1 .* published parameters have a0666292"):
        model_store.get_model_file("resnet18_v1", root=str(tmp_path))


def test_purge_deletes_parameter_files_only(tmp_path: Path) -> None:
    for name in ("a.params", "b.params", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    model_store.purge(str(tmp_path))
    model_store.purge(str(tmp_path / "missing"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


sys.path.insert(0, str(Path(__file__).parent))
from zoo_ops import traced_ops

LISTED = (Path(__file__).parents[2] / "data/model_zoo_ops.txt").read_text().split()
NETWORKS = [name for name in vision.MODELS if not name.endswith("v1b")]


def test_list_is_what_small_networks_use(tmp_path: Path) -> None:
    script, graphs = Path(__file__).parent / "zoo_ops.py", {"MXLITE_DUMP_GRAPH": str(tmp_path)}
    done = run_python(script, environment=graphs)
    assert done.stdout.split() == LISTED, "run tests/python/gluon/zoo_ops.py again"


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_have_only_listed_operators(name: str) -> None:
    used = {mx._core.op(op).schema_name for op in traced_ops(name)}
    assert used and used <= set(LISTED)
