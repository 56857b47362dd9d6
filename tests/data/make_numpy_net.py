"""Write numpy_net-symbol.json, -0000.params and .npz: a network of numpy mode by MXNet 1.9.1.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24):

    python tests/data/make_numpy_net.py tests/data/mxnet_1_9_1
"""

import sys

import mxnet as mx
import numpy as onp
from mxnet import gluon, np, npx

npx.set_np()


class Net(gluon.HybridBlock):
    """Has a layer, a parameter, and operators that files call _np_*, _npi_* and _npx_*."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(5, in_units=3)
            self.weight = self.params.get("weight", shape=(5, 3))

    def hybrid_forward(self, F, x, weight):  # noqa: N803
        y = F.npx.sigmoid(self.dense(x))
        z = F.np.concatenate([y, F.np.tanh(y)], axis=1)
        top = F.np.max(F.np.dot(y, weight)) / 2
        return F.np.reshape(F.np.where(z > 0.5, z, z * 0.5), (-1,)) + top + z[0, 1]


def main(folder):
    """Write the files."""
    mx.random.seed(1)
    net = Net()
    net.initialize(mx.init.Normal(0.5))
    net.hybridize()
    data = onp.linspace(-1, 1, 6).reshape(2, 3).astype("float32")
    output = net(np.array(data)).asnumpy()
    net.export(folder + "/numpy_net")
    onp.savez(folder + "/numpy_net.npz", data=data, output=output)


if __name__ == "__main__":
    main(sys.argv[1])
