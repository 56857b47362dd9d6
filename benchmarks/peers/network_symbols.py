"""A layer list as a symbol, for MXNet 1.9.1 and mxlite alike (Python 3.8 and later)."""


def _attention(mx, qkv, heads):
    scores = mx.sym.contrib.interleaved_matmul_selfatt_qk(qkv, heads=heads)
    attention = mx.sym.softmax(scores, axis=-1)
    return mx.sym.contrib.interleaved_matmul_selfatt_valatt(qkv, attention, heads=heads)


def network_symbol(mx, spec):
    """Return a network's symbol; its input is called ``data``.

    Parameters
    ----------
    mx : module
        mxnet or mxlite.
    spec : dict
        ``layers`` as in layers.py.

    Returns
    -------
    Symbol
        The scores.
    """
    outputs = {-1: mx.sym.var("data")}
    for index, layer in enumerate(spec["layers"]):
        op, attrs, params = layer["op"], layer["attrs"], layer["params"]
        inputs = [outputs[i] for i in layer["inputs"]]
        named = {role: mx.sym.var(name) for role, (name, _) in params.items()}
        if op == "conv":
            shape = params["weight"][1]
            outputs[index] = mx.sym.Convolution(
                inputs[0],
                num_filter=shape[0],
                kernel=shape[2:],
                stride=attrs["stride"],
                pad=attrs["pad"],
                num_group=attrs["groups"],
                no_bias="bias" not in named,
                **named,
            )
        elif op == "batch_norm":
            outputs[index] = mx.sym.BatchNorm(
                inputs[0],
                gamma=named["gamma"],
                beta=named["beta"],
                moving_mean=named["running_mean"],
                moving_var=named["running_var"],
                eps=attrs["epsilon"],
                fix_gamma=attrs["fix_gamma"],
            )
        elif op == "dense":
            outputs[index] = mx.sym.FullyConnected(
                inputs[0],
                num_hidden=params["weight"][1][0],
                no_bias="bias" not in named,
                flatten=False,
                **named,
            )
        elif op in ("max_pool", "avg_pool"):
            outputs[index] = mx.sym.Pooling(
                inputs[0],
                kernel=attrs["kernel"],
                stride=attrs["stride"],
                pad=attrs["pad"],
                pool_type=op[:3],
                pooling_convention="full" if attrs["ceil"] else "valid",
            )
        elif op == "global_avg_pool":
            outputs[index] = mx.sym.Pooling(
                inputs[0], kernel=(1, 1), global_pool=True, pool_type="avg"
            )
        elif op == "relu":
            outputs[index] = mx.sym.Activation(inputs[0], act_type="relu")
        elif op == "clip":
            outputs[index] = mx.sym.clip(inputs[0], attrs["low"], attrs["high"])
        elif op == "add":
            outputs[index] = inputs[0] + inputs[1]
        elif op == "scale":
            outputs[index] = inputs[0] * attrs["factor"]
        elif op == "concat":
            outputs[index] = mx.sym.concat(*inputs, dim=attrs["axis"])
        elif op == "flatten":
            outputs[index] = mx.sym.flatten(inputs[0])
        elif op == "embedding":  # from here on (length, batch, units)
            vocabulary, units = params["weight"][1]
            outputs[index] = mx.sym.Embedding(
                mx.sym.transpose(inputs[0]), input_dim=vocabulary, output_dim=units, **named
            )
        elif op == "add_positions":
            positions = mx.sym.expand_dims(named["positions"], axis=1)
            outputs[index] = mx.sym.broadcast_add(inputs[0], positions)
        elif op == "layer_norm":
            outputs[index] = mx.sym.LayerNorm(inputs[0], eps=attrs["epsilon"], **named)
        elif op in ("linear", "self_attention"):
            y = mx.sym.FullyConnected(
                inputs[0], num_hidden=params["weight"][1][0], flatten=False, **named
            )
            outputs[index] = y if op == "linear" else _attention(mx, y, attrs["heads"])
        elif op == "gelu":
            outputs[index] = mx.sym.LeakyReLU(inputs[0], act_type="gelu")
        elif op == "tanh":
            outputs[index] = mx.sym.Activation(inputs[0], act_type="tanh")
        elif op == "first_token":
            first = mx.sym.slice_axis(inputs[0], axis=0, begin=0, end=1)
            outputs[index] = mx.sym.reshape(first, shape=(-3, 0))
        elif op == "dropout":
            outputs[index] = mx.sym.Dropout(inputs[0], p=attrs["rate"])
        else:
            raise ValueError("symbols: no form of layer " + op)
    return outputs[len(spec["layers"]) - 1]
