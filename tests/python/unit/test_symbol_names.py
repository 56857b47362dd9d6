"""Names of inputs and outputs as in 1.9.1, where they differ from `output` and `output0`."""

import json

import mxlite as mx
import numpy as np
import pytest
from mxlite import sym


@mx.operator.register("two_named_outputs")
class TwoNamedOutputs(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["left", "right"]

    def list_outputs(self):
        return ["sum", "difference"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        class SumAndDifference(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] + in_data[1])
                self.assign(out_data[1], req[1], in_data[0] - in_data[1])

        return SumAndDifference()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: sym.linalg_gemm2(x, x), "linalg_gemm20"),
        (lambda x: sym.linalg.gemm2(x, x), "gemm20"),
        (lambda x: sym.linalg_potrf(x), "linalg_potrf0"),
        (lambda x: sym.random.normal_like(x), "normal_like0"),
        (lambda x: sym.random_normal(0, 1, shape=(2,)), "random_normal0"),
        (lambda x: sym.random.normal(0, 1, shape=(2,)), "_random_normal0"),
        (lambda x: sym.contrib.div_sqrt_dim(x), "div_sqrt_dim0"),
    ],
)
def test_automatic_names_depend_on_the_name_that_is_called(make, name):
    with mx.name.NameManager():
        assert make(sym.var("x")).name == name


def test_outputs_of_custom_operators():
    x = sym.Variable("x")
    both = sym.Custom(x, sym.Variable("y"), op_type="two_named_outputs", name="pair")
    assert both.list_outputs() == ["pair_sum", "pair_difference"]
    assert both[1].list_outputs() == ["pair_difference"]
    assert both.get_internals().list_outputs() == ["x", "y", "pair_sum", "pair_difference"]
    assert both.get_internals()["pair_difference"].list_outputs() == ["pair_difference"]
    again = sym.load_json(both.tojson())
    assert again.list_outputs() == both.list_outputs()
    executor = both.bind(mx.cpu(), {"x": mx.nd.array([3]), "y": mx.nd.array([1])})
    executor.forward()
    found = {name: array.asnumpy().tolist() for name, array in executor.output_dict.items()}
    assert found == {"pair_sum": [4], "pair_difference": [2]}


def test_outputs_of_proposals():
    inputs = [sym.Variable(name) for name in ("cls", "box", "info")]
    for make in (sym.contrib.Proposal, sym.contrib.MultiProposal):
        assert make(*inputs, name="p").list_outputs() == ["p_output"]
        both = make(*inputs, output_score=True, name="p")
        assert both.list_outputs() == ["p_output", "p_score"]


@pytest.mark.parametrize(
    ("name", "count", "options"),
    [
        ("act", 3, {"act_type": "relu"}),
        ("batch_norm", 7, {"min_calib_range": 0.0, "max_calib_range": 1.0}),
        ("concat", 6, {"num_args": 2}),
        ("conv", 9, {"kernel": (3, 3), "num_filter": 2}),
        ("elemwise_add", 6, {}),
        ("elemwise_mul", 6, {}),
        ("embedding", 4, {"input_dim": 2, "output_dim": 3}),
        ("flatten", 3, {}),
        ("fully_connected", 9, {"num_hidden": 2}),
        ("pooling", 3, {"kernel": (2, 2), "pool_type": "max"}),
    ],
)
def test_outputs_of_quantized_operators(name, count, options):
    inputs = [sym.Variable(f"v{i}") for i in range(count)]
    made = getattr(sym.contrib, f"quantized_{name}")(*inputs, name="q", **options)
    assert made.list_outputs() == ["q_output", "q_min_output", "q_max_output"]


def test_bilinear_upsampling_makes_its_weight():
    options = {"scale": 2, "sample_type": "bilinear", "num_filter": 1, "name": "up"}
    x = sym.Variable("x")
    made = sym.UpSampling(x, **options)
    assert made.list_arguments() == ["x", "up_weight"]
    shapes, outputs, _ = made.infer_shape(x=(1, 1, 3, 3))
    assert shapes == [(1, 1, 3, 3), (1, 1, 4, 4)] and outputs == [(1, 1, 6, 6)]
    nodes = json.loads(made.tojson())["nodes"]
    assert nodes[1]["attrs"]["__init__"] == '["bilinear", {}]'
    assert nodes[2]["attrs"]["num_args"] == "1"
    assert sym.load_json(made.tojson()).list_arguments() == ["x", "up_weight"]
    for given in (
        sym.UpSampling(x, sym.Variable("w"), **options),
        sym.UpSampling(data=x, weight=sym.Variable("w"), **options),
    ):
        assert given.list_arguments() == ["x", "w"]
        assert given.infer_shape(x=(1, 1, 3, 3))[0][1] == (1, 1, 4, 4)
        assert given.attr_dict()["w"]["__init__"] == '["bilinear", {}]'
    module = mx.mod.Module(made, data_names=["x"], label_names=None)
    module.bind([("x", (1, 1, 3, 3))], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.ones((1, 1, 3, 3))]))
    inner = module.get_outputs()[0].asnumpy()[0, 0, 1:-1, 1:-1]
    np.testing.assert_allclose(inner, 1, rtol=1e-6)  # interpolation between ones
    near = sym.UpSampling(x, scale=2, sample_type="nearest", name="up")
    assert near.list_arguments() == ["x"]
    with pytest.raises(TypeError, match="weight"):
        sym.UpSampling(data=x, weight=sym.Variable("w"), scale=2, sample_type="nearest")
    assert sym.UpSampling(data=x, scale=2, sample_type="nearest").list_arguments() == ["x"]
