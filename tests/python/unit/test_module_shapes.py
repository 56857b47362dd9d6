"""Bound executors and modules: parameters keep their shapes whatever the batches' shapes."""

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd


def dense_net(data=None):
    data = mx.sym.Variable("data") if data is None else data
    return mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(data, num_hidden=3, name="fc"), name="softmax"
    )


def picture_net():
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=2, name="conv")
    net = mx.sym.BatchNorm(net, name="bn")
    return dense_net(mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg"))


def bound(shape, symbol=None):
    module = mx.mod.Module(dense_net() if symbol is None else symbol)
    module.bind([("data", shape)], [("softmax_label", shape[:1])])
    module.init_params(mx.init.Uniform(1))
    return module


def batch_of(shape, seed=0):
    data = nd.array(np.random.RandomState(seed).rand(*shape))
    return mx.io.DataBatch([data], [nd.zeros(shape[0])])


def check_forward(module, batch):
    module.forward(batch, is_train=False)
    args, data = module.get_params()[0], batch.data[0]
    scores = data.asnumpy() @ args["fc_weight"].asnumpy().T + args["fc_bias"].asnumpy()
    scores = np.exp(scores - scores.max(1, keepdims=True))
    wanted = scores / scores.sum(1, keepdims=True)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("given", [(2, 5), (2, 2), (4, 5), (1, 2), (2, 2, 2)])
def test_another_number_of_features_is_an_error(given):
    module = bound((2, 3))
    with pytest.raises(mx.base.ShapeError, match=r"fc_weight changed from \(3, 3\)"):
        module.forward(batch_of(given))
    with pytest.raises(mx.base.ShapeError, match="fc_weight changed"):
        module.reshape([("data", given)], [("softmax_label", given[:1])])
    if len(given) == 2:
        batches = mx.io.NDArrayIter(nd.ones(given), nd.zeros(given[0]), batch_size=given[0])
        for run in (module.predict, lambda data: module.score(data, "acc")):
            with pytest.raises(mx.base.ShapeError, match="fc_weight changed"):
                run(batches)
    check_forward(module, batch_of((5, 3)))  # the module still works


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_batch_size_may_change(size):
    module = bound((4, 3))
    weight = module.get_params()[0]["fc_weight"].asnumpy()
    for seed in range(2):
        batch = batch_of((size, 3), seed)
        check_forward(module, batch)
        unlabelled = mx.io.DataBatch([batch.data[0]], None)
        module.forward(unlabelled, is_train=False)
        assert module.get_outputs()[0].shape == (size, 3)
    np.testing.assert_array_equal(module.get_params()[0]["fc_weight"].asnumpy(), weight)


def test_pictures_of_other_sizes_but_not_channels():
    module = bound((2, 3, 8, 8), picture_net())
    for shape in ((2, 3, 10, 12), (1, 3, 5, 5)):
        module.forward(batch_of(shape))
        assert module.get_outputs()[0].shape == (shape[0], 3)
    with pytest.raises(mx.base.ShapeError, match="conv_weight changed"):
        module.forward(batch_of((2, 4, 8, 8)))


def test_executors_reshape_what_they_are_told_to():
    executor = dense_net().simple_bind(mx.cpu(), data=(2, 3))
    with pytest.raises(mx.base.ShapeError, match="fc_weight changed"):
        executor.reshape(allow_up_sizing=True, data=(2, 5))
    with pytest.raises(ValueError, match="softmax_label changed"):
        executor.reshape(data=(1, 3))
    wide = executor.reshape(partial_shaping=True, allow_up_sizing=True, data=(2, 5))
    assert wide.arg_dict["fc_weight"].shape == (3, 5)
    with pytest.raises(ValueError, match="Shape not match"):
        executor.forward(data=nd.ones((2, 5)))
    norm = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    norm = norm.simple_bind(mx.cpu(), data=(2, 3, 4))
    with pytest.raises(ValueError, match="bn_moving_mean changed"):
        norm.reshape(data=(2, 2, 4), bn_gamma=(2,), bn_beta=(2,))
    with pytest.raises(mx.base.ShapeError, match="copy_params_from: fc_weight"):
        executor.copy_params_from({"fc_weight": nd.ones((3, 1))})


def test_shared_parameters_keep_their_shapes():
    first = dense_net().simple_bind(mx.cpu(), data=(2, 3))
    with pytest.raises(mx.base.ShapeError, match=r"fc_weight has shape \(3, 3\) in shared_exec"):
        dense_net().simple_bind(
            mx.cpu(), data=(2, 5), shared_exec=first, shared_arg_names=["fc_weight", "fc_bias"]
        )
    module = mx.mod.Module(dense_net())
    with pytest.raises(mx.base.ShapeError, match="fc_weight has shape"):
        module.bind([("data", (2, 5))], [("softmax_label", (2,))], shared_module=bound((2, 3)))


def test_buckets_share_parameters():
    module = mx.mod.BucketingModule(
        lambda key: (dense_net(), ("data",), ("softmax_label",)), default_bucket_key=3
    )
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())

    def batch(key, shape):
        names = {"provide_data": [("data", shape)], "bucket_key": key}
        names["provide_label"] = [("softmax_label", shape[:1])]
        return mx.io.DataBatch([nd.ones(shape)], [nd.zeros(shape[0])], **names)

    for key, shape in ((5, (2, 5)), (2, (2, 2)), (3, (2, 5))):
        with pytest.raises(mx.base.ShapeError, match="fc_weight"):
            module.forward(batch(key, shape))
    module.forward(batch(4, (4, 3)))
    assert module.get_outputs()[0].shape == (4, 3)
