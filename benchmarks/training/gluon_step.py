"""A training step in MXNet's API, for MXNet 1.9.1 and mxlite alike (Python 3.8 and later)."""

import numpy as np
import peer_values

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.01, 0.9, 1e-4
CLASSES = 1000
LOSS_SCALE = 128.0  # loss scale for float16


def labels(batch):
    """Return the classes of a batch.

    Parameters
    ----------
    batch : int
        Images.

    Returns
    -------
    numpy.ndarray
        float32 of shape ``(batch,)``.
    """
    return (np.arange(batch) * 37 % CLASSES).astype(np.float32)


def _options(dtype, batch):
    return {
        "learning_rate": LEARNING_RATE,
        "momentum": MOMENTUM,
        "wd": WEIGHT_DECAY,
        "multi_precision": dtype != "float32",
    }


def gluon(mx, net, dtype, batch, size):
    """Return a training step of a Gluon block, and a function that waits for the last step.

    Parameters
    ----------
    mx : module
        mxnet or mxlite.
    net : HybridBlock
        With its parameters filled.
    dtype : str
        ``"float32"``, ``"float16"`` or ``"bfloat16"``.
    batch, size : int
        Images, and their height and width.

    Returns
    -------
    tuple of callable
        ``step(fetch=False)`` gives the mean loss when asked, ``wait()``.
    """
    device = mx.gpu(0) if peer_values.DEVICE == "gpu" else mx.cpu(0)
    scale = LOSS_SCALE if dtype == "float16" else 1.0
    data = mx.nd.array(peer_values.images(batch, size), ctx=device)
    label = mx.nd.array(labels(batch), ctx=device)
    net.collect_params().reset_ctx(device)
    mx.nd.waitall()  # the copies that set the parameters are not a step's memory
    if dtype != "float32":
        net.cast(dtype)
        data = data.astype(dtype)
    net.hybridize(static_alloc=True, static_shape=True)
    objective = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    objective.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", _options(dtype, batch))

    def step(fetch=False):
        with mx.autograd.record():
            loss = objective(net(data).astype("float32"), label)
            scaled = loss * scale if scale != 1 else loss
        scaled.backward()
        trainer.step(batch * scale)
        return float(loss.mean().asscalar()) if fetch else None

    return step, mx.nd.waitall


def module(mx, symbol, dtype, batch, size, parameters):
    """Return a training step of a Module, and a function that waits for the last step.

    Parameters
    ----------
    mx : module
        mxnet or mxlite.
    symbol : Symbol
        The scores; SoftmaxOutput is added.
    dtype : str
        Only ``"float32"``.
    batch, size : int
        Images, and their height and width.
    parameters : dict
        Name to shape.

    Returns
    -------
    tuple of callable
        As :func:`gluon`.
    """
    symbol = mx.sym.SoftmaxOutput(symbol, mx.sym.var("softmax_label"), name="softmax")
    net = mx.mod.Module(symbol, context=mx.cpu())
    net.bind([("data", (batch, 3, size, size))], [("softmax_label", (batch,))])
    running = set(symbol.list_auxiliary_states())
    given = {
        name: mx.nd.array(peer_values.parameter(name, shape)) for name, shape in parameters.items()
    }
    net.init_params(
        arg_params={name: array for name, array in given.items() if name not in running},
        aux_params={name: array for name, array in given.items() if name in running},
    )
    del given
    net.init_optimizer(
        kvstore=None, optimizer="sgd", optimizer_params=tuple(_options(dtype, batch).items())
    )
    target = labels(batch).astype(np.int64)
    content = mx.io.DataBatch(
        [mx.nd.array(peer_values.images(batch, size))], [mx.nd.array(labels(batch))]
    )

    def step(fetch=False):
        net.forward_backward(content)
        net.update()
        if not fetch:
            return None
        scores = net.get_outputs()[0].asnumpy()
        return float(-np.log(scores[np.arange(batch), target]).mean())

    return step, mx.nd.waitall
