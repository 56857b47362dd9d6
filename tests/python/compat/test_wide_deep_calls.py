"""The calls of MXNet 1.9.1's example/sparse/wide_deep run through the import alias."""

from alias_runner import run_code

CODE = """
    import mxnet as mx
    import numpy as np

    BATCH, BUCKETS, EMBEDS, NUMBERS = 50, 100, 2, 5
    random = np.random.RandomState(0)
    cat = random.randint(0, 20, (1000, EMBEDS))
    dns = np.concatenate([cat, random.rand(1000, NUMBERS)], 1).astype("float32")
    label = ((cat[:, 0] % 3 == 0) ^ (random.rand(1000) < 0.1)).astype("float32")
    crosses = [(cat[:, 0] * 31 + cat[:, 1] * k) % BUCKETS + BUCKETS * k for k in range(3)]
    columns = np.stack(crosses, 1).ravel()
    csr = mx.nd.sparse.csr_matrix(
        (np.ones(3000, "float32"), columns, np.arange(0, 3001, 3)), shape=(1000, 3 * BUCKETS))

    csr_data = mx.symbol.Variable("csr_data", stype="csr")
    weight = mx.symbol.Variable("linear_weight", shape=(3 * BUCKETS, 2),
                                init=mx.initializer.Normal(sigma=0.01), stype="row_sparse")
    bias = mx.symbol.Variable("linear_bias", shape=(2,))
    linear = mx.symbol.broadcast_add(mx.symbol.sparse.dot(csr_data, weight), bias)
    dns_data = mx.symbol.Variable("dns_data")
    label_symbol = mx.symbol.Variable("softmax_label")
    x = mx.symbol.slice(data=dns_data, begin=(0, 0), end=(None, EMBEDS))
    features = [
        mx.symbol.sparse.Embedding(
            data=embed, weight=mx.symbol.Variable("embed_%d_weight" % i, stype="row_sparse"),
            input_dim=20, output_dim=8, sparse_grad=True)
        for i, embed in enumerate(mx.symbol.split(data=x, num_outputs=EMBEDS, squeeze_axis=1))]
    features.append(mx.symbol.slice(data=dns_data, begin=(0, EMBEDS), end=(None, EMBEDS + NUMBERS)))
    hidden = mx.symbol.FullyConnected(data=mx.symbol.concat(*features, dim=1), num_hidden=50)
    hidden = mx.symbol.Activation(data=hidden, act_type="relu")
    hidden = mx.symbol.FullyConnected(data=hidden, num_hidden=2)
    model = mx.symbol.SoftmaxOutput(linear + hidden, label_symbol, name="model")

    data = mx.io.NDArrayIter({"csr_data": csr, "dns_data": dns}, {"softmax_label": label}, BATCH,
                             shuffle=True, last_batch_handle="discard")
    mod = mx.mod.Module(symbol=model, context=mx.cpu(0), data_names=["csr_data", "dns_data"],
                        label_names=["softmax_label"])
    mod.bind(data_shapes=data.provide_data, label_shapes=data.provide_label)
    mod.init_params()
    optimizer = mx.optimizer.create("adam", learning_rate=0.02, rescale_grad=1.0 / BATCH)
    mod.init_optimizer(optimizer=optimizer, kvstore=mx.kvstore.create("local"))
    metric = mx.metric.create(["acc"])
    speedometer = mx.callback.Speedometer(BATCH, 10)
    for epoch in range(4):
        metric.reset()
        for nbatch, batch in enumerate(data):
            mod.forward_backward(batch)
            mod.update()
            mod.update_metric(metric, batch.label)
            speedometer(mx.model.BatchEndParam(
                epoch=epoch, nbatch=nbatch, eval_metric=metric, locals=locals()))
        data.reset()
    print(mod.score(data, metric)[0][1])
    mod.save_checkpoint("checkpoint", epoch, save_optimizer_states=False)
    _, args, _ = mx.model.load_checkpoint("checkpoint", epoch)
    assert args["linear_weight"].shape == (3 * BUCKETS, 2)
"""


def test_wide_and_deep_learns(tmp_path):
    output = run_code(CODE, tmp_path)
    assert float(output.splitlines()[-1]) > 0.85  # labels are right for 0.9 of the rows
