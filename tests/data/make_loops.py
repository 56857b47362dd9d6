"""Writes mxnet_1_9_1/loops-symbol.json: run with MXNet 1.9.1, ``python make_loops.py FILE``."""

import sys

import mxnet as mx

data, start, weight = (mx.sym.var(name) for name in ("data", "start", "weight"))
low, high = mx.sym.var("low"), mx.sym.var("high")


def scan(row, states):
    total = mx.sym.FullyConnected(row, weight, num_hidden=3, no_bias=True, name="fc") + states[0]
    return total, [total]


rows, last = mx.sym.contrib.foreach(scan, data, [start])
steps, ends = mx.sym.contrib.while_loop(
    lambda i, x: i < high,
    lambda i, x: (x + low, [i + 1, x * 2]),
    [low, mx.sym.var("x")],
    max_iterations=4,
)
chosen = mx.sym.contrib.cond(low < high, lambda: low + high, lambda: low * high)
mx.sym.Group([rows, last[0], steps, *ends, chosen]).save(sys.argv[1])
