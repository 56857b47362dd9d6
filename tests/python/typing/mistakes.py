"""Scripts with one mistake each, and a part of what mypy says about it."""

from __future__ import annotations

BEGIN = (
    "import mxlite as mx\nfrom mxlite import gluon, nd\nfrom mxlite.gluon import nn\n"
    "x = nd.ones((2, 3))\n"
)

MISTAKES = {
    "keyword_of_operator": ("nd.softmax(x, axes=1)", 'Unexpected keyword argument "axes"'),
    "keyword_of_method": ("x.sum(axes=1)", 'Unexpected keyword argument "axes"'),
    "keyword_of_variadic": ("nd.concat(x, x, axis=0)", 'Unexpected keyword argument "axis"'),
    "missing_operand": ("nd.dot(x)", 'Missing positional argument "rhs"'),
    "literal": ("nd.Activation(x, act_type='rellu')", "incompatible type \"Literal['rellu']\""),
    "name_of_operator": ("nd.sofmax(x)", 'Module has no attribute "sofmax"'),
    "name_of_method": ("x.asnumpi()", '"NDArray" has no attribute "asnumpi"'),
    "name_of_module": ("mx.gloun", 'Module has no attribute "gloun"'),
    "operand": ("x + 'a'", "Unsupported operand types"),
    "keyword_of_layer": ("nn.Dense(3, hidden=4)", 'Unexpected keyword argument "hidden"'),
    "type_of_layer_argument": ("nn.Dense('3')", 'incompatible type "str"; expected "int"'),
    "result_of_layer": ("nn.Dense(3)(x).asnumpi()", 'has no attribute "asnumpi"'),
    "result_of_own_block": (
        "class Net(gluon.HybridBlock):\n"
        "    def forward(self, x: nd.NDArray) -> tuple[nd.NDArray, nd.NDArray]:\n"
        "        return x, x\n"
        "Net()(x).mean()",
        'has no attribute "mean"',
    ),
    "missing_label": ("gluon.loss.L2Loss()(x)", "No overload variant of"),
    "states_of_lstm": (
        "output, states = gluon.rnn.LSTM(3)(x, [x, x])\nstates.mean()",
        '"list[NDArray]" has no attribute "mean"',
    ),
    "trainer_step": (
        "gluon.Trainer(nn.Dense(1).collect_params(), 'sgd').step()",
        'Missing positional argument "batch_size"',
    ),
    "symbol_keyword": (
        "mx.sym.FullyConnected(mx.sym.var('data'), hidden=3)",
        'Unexpected keyword argument "hidden"',
    ),
    "array_for_symbol": ("mx.sym.relu(x)", 'incompatible type "NDArray"'),
    "method_of_symbol": ("mx.sym.var('data').asnumpi()", '"Symbol" has no attribute "asnumpi"'),
    "kvstore": ("mx.kv.create('local').pul(3, out=x)", '"KVStore" has no attribute "pul"'),
    "loader": (
        "gluon.data.DataLoader([1, 2], batchsize=2)",
        'Unexpected keyword argument "batchsize"',
    ),
    "module_fit": (
        "mx.mod.Module(mx.sym.var('data')).fit(None, epochs=3)",
        'Unexpected keyword argument "epochs"',
    ),
    "metric": ("mx.metric.Acuracy()", 'Module has no attribute "Acuracy"'),
    "context": ("nd.zeros((2, 3), ctx=3)", 'Argument "ctx" to "zeros"'),
}
