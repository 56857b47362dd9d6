"""Write mxnet_1_9_1/: results and files of MXNet 1.9.1, with which tests compare.

Run in an environment with MXNet 1.9.1 (Python 3.8, NumPy below 1.24):

    python tests/data/make_gluon.py tests/data/mxnet_1_9_1
"""

import json
import sys
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

out = sys.argv[1]
rng = np.random.RandomState(7)
# optimizers
W = rng.randn(3, 4).astype("f")
Gs = [rng.randn(3, 4).astype("f") for _ in range(4)]
cases = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "wd": 0.01}),
    ("sgd", {"momentum": 0.9, "clip_gradient": 0.5, "wd": 0.1}),
    ("nag", {"momentum": 0.9, "wd": 0.01}),
    ("nag", {}),
    ("adam", {"wd": 0.01}),
    ("adam", {"clip_gradient": 0.3}),
    ("adagrad", {"wd": 0.01}),
    ("adadelta", {"wd": 0.01}),
    ("rmsprop", {"wd": 0.01}),
    ("rmsprop", {"centered": True, "wd": 0.01}),
    ("rmsprop", {"clip_weights": 0.5}),
    ("adamax", {"wd": 0.01}),
    ("nadam", {"wd": 0.01}),
    ("ftrl", {"wd": 0.01}),
    ("ftml", {"wd": 0.01}),
    ("signum", {"wd_lh": 0.01, "wd": 0.01}),
    ("signum", {"momentum": 0.0, "wd": 0.01}),
    ("dcasgd", {}),
    ("lamb", {"wd": 0.01}),
    ("lamb", {"lower_bound": 1.0, "upper_bound": 2.0, "bias_correction": False}),
    ("lars", {"momentum": 0.9, "eta": 0.1, "wd": 0.01}),
    ("lbsgd", {"momentum": 0.9, "wd": 0.01}),
    ("lbsgd", {"batch_scale": 2, "warmup_strategy": "lars", "momentum": 0.9}),
    ("groupadagrad", {}),
]
opts = []
for name, kw in cases:
    o = mx.optimizer.create(name, rescale_grad=0.5, **kw)
    u = mx.optimizer.get_updater(o)
    w = nd.array(W)
    seq = []
    for g in Gs:
        u(0, nd.array(g), w)
        seq.append(w.asnumpy().tolist())
    opts.append({"name": name, "options": kw, "weights": seq})
# losses
P = rng.randn(4, 3).astype("f")
L = rng.randn(4, 3).astype("f")
B = (rng.rand(4, 3) > 0.5).astype("f")
S = 2 * B - 1
C = np.array([0, 2, 1, 2], "f")
prob = np.abs(P) / np.abs(P).sum(1, keepdims=True)
SW = rng.rand(4, 1).astype("f")
K = np.floor(rng.rand(4, 3) * 5).astype("f")
data = dict(P=P, L=L, B=B, S=S, C=C, prob=prob.astype("f"), SW=SW)
data.update(sig=(1 / (1 + np.exp(-P))).astype("f"), K=K, P2=rng.randn(4, 3).astype("f"))
data.update(y=np.array([1, -1, 1, -1], "f"), pw=np.array([[2.0, 3.0, 0.5]], "f"))
lc = [
    ("L2Loss", {}, ["P", "L"]),
    ("L2Loss", {"weight": 3.0}, ["P", "L", "SW"]),
    ("L1Loss", {}, ["P", "L"]),
    ("SigmoidBinaryCrossEntropyLoss", {}, ["P", "B"]),
    ("SigmoidBinaryCrossEntropyLoss", {}, ["P", "B", "SW", "pw"]),
    ("SigmoidBinaryCrossEntropyLoss", {"from_sigmoid": True}, ["sig", "B"]),
    ("SigmoidBinaryCrossEntropyLoss", {"from_sigmoid": True}, ["sig", "B", "SW", "pw"]),
    ("SoftmaxCrossEntropyLoss", {}, ["P", "C"]),
    ("SoftmaxCrossEntropyLoss", {"sparse_label": False}, ["P", "prob"]),
    ("SoftmaxCrossEntropyLoss", {"from_logits": True, "weight": 0.5}, ["P", "C", "SW"]),
    ("KLDivLoss", {}, ["P", "prob"]),
    ("KLDivLoss", {"from_logits": False}, ["P", "prob", "SW"]),
    ("HuberLoss", {"rho": 0.5}, ["P", "L"]),
    ("HingeLoss", {}, ["P", "S"]),
    ("SquaredHingeLoss", {"margin": 2}, ["P", "S"]),
    ("LogisticLoss", {}, ["P", "S"]),
    ("LogisticLoss", {"label_format": "binary"}, ["P", "B"]),
    ("TripletLoss", {}, ["P", "L", "P2"]),
    ("PoissonNLLLoss", {}, ["P", "K"]),
    ("PoissonNLLLoss", {"from_logits": False, "compute_full": True}, ["prob", "K"]),
    ("CosineEmbeddingLoss", {"margin": 0.1}, ["P", "L", "y"]),
    ("SDMLLoss", {}, ["P", "L"]),
]
losses = []
for name, kw, args in lc:
    arrs = [nd.array(data[a]) for a in args]
    arrs[0].attach_grad()
    lf = getattr(gluon.loss, name)(**kw)
    value, grad = lf(*arrs).asnumpy().tolist(), None
    if name != "SDMLLoss":  # 1.9.1 writes into an array while recording and fails
        try:
            with autograd.record():
                v = lf(*arrs)
        except mx.MXNetError:
            print("no gradient", name, kw)
        else:
            v.backward()
            value, grad = v.asnumpy().tolist(), arrs[0].grad.asnumpy().tolist()
    losses.append({"name": name, "options": kw, "inputs": args, "value": value, "grad": grad})


# metrics
def metric(name, kw, pairs):
    m = mx.metric.create(name, **kw)
    for label, pred in pairs:
        m.update([nd.array(data2[label])], [nd.array(data2[pred])])
    n, v = m.get()
    return {"name": name, "options": kw, "pairs": pairs, "metric_name": n, "value": v}


pr = rng.rand(6, 3).astype("f")
pr /= pr.sum(1, keepdims=True)
pr2 = rng.rand(5, 3).astype("f")
pr2 /= pr2.sum(1, keepdims=True)
b1 = rng.rand(6, 2).astype("f")
b2 = rng.rand(5, 2).astype("f")
data2 = dict(p1=pr, l1=np.array([0, 1, 2, 1, 0, 2], "f"))
data2.update(p2=pr2, l2=np.array([2, 1, 0, 0, 1], "f"))
data2.update(b1=b1, c1=np.array([0, 1, 1, 0, 1, 0], "f"))
data2.update(b2=b2, c2=np.array([1, 1, 0, 0, 1], "f"))
for key, shape in (("r1", (6, 2)), ("t1", (6, 2)), ("r2", (5, 2)), ("t2", (5, 2))):
    data2[key] = rng.randn(*shape).astype("f")
data2.update(s1=rng.rand(6, 1).astype("f"), q1=rng.rand(6).astype("f"))
mp = [["l1", "p1"], ["l2", "p2"]]
bp = [["c1", "b1"], ["c2", "b2"]]
rp = [["t1", "r1"], ["t2", "r2"]]
metrics = [
    metric(n, k, p)
    for n, k, p in [
        ("acc", {}, mp),
        ("top_k_accuracy", {"top_k": 2}, mp),
        ("f1", {}, bp),
        ("f1", {"average": "micro"}, bp),
        ("mcc", {}, bp),
        ("mcc", {"average": "micro"}, bp),
        ("pcc", {}, mp),
        ("perplexity", {"ignore_label": None}, mp),
        ("perplexity", {"ignore_label": 1}, mp),
        ("mae", {}, rp),
        ("mse", {}, rp),
        ("rmse", {}, rp),
        ("rmse", {}, [["q1", "s1"]]),
        ("ce", {}, mp),
        ("nll_loss", {}, mp),
        ("pearsonr", {}, rp),
        ("pearsonr", {"average": "micro"}, rp),
        ("loss", {}, rp),
    ]
]
golden = {
    "weight": W.tolist(),
    "grads": [g.tolist() for g in Gs],
    "optimizers": opts,
    "loss_data": {k: v.tolist() for k, v in data.items()},
    "losses": losses,
    "metric_data": {k: v.tolist() for k, v in data2.items()},
    "metrics": metrics,
}
Path(out + "/golden.json").write_text(json.dumps(golden))
# parameter files and states of a small net
mx.random.seed(3)
net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(gluon.nn.Conv2D(2, 3), gluon.nn.BatchNorm(), gluon.nn.Dense(2))
net.initialize()
net.hybridize()
x = nd.array(np.arange(50).reshape(1, 2, 5, 5) / 50.0)
with autograd.record():
    y = net(x)
tr = gluon.Trainer(
    net.collect_params(),
    "adam",
    {"learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5), "wd": 0.01},
)
y.backward()
tr.step(1)
with autograd.record():
    y = net(x)
y.backward()
tr.step(1)
net.save_parameters(out + "/net.params")
net.collect_params().save(out + "/net_prefixed.params")
net.export(out + "/net_export", 2)
tr.save_states(out + "/net.states")
nd.save(out + "/net_io.params", {"x": x, "y": net(x)})
rows = nd.array([[0, 0], [1, 2], [0, 0], [3, 4]]).tostype("row_sparse")
csr = nd.array([[0, 5], [6, 0], [0, 0]]).tostype("csr")
nd.save(out + "/sparse.params", {"rs": rows, "csr": csr})
types = ("float16", "float32", "float64", "uint8", "int8", "int32", "int64")
nd.save(out + "/types.params", {t: nd.array([[0, 1], [2, 3]], dtype=t) for t in types})
with mx.np_shape(True):
    scalar, empty = mx.np.array(2.5).as_nd_ndarray(), mx.np.zeros((0, 3)).as_nd_ndarray()
    nd.save(out + "/v3.params", {"scalar": scalar, "empty": empty})
w = nd.array(W)
o = mx.optimizer.create("sgd", momentum=0.9)
u = mx.optimizer.get_updater(o)
u(0, nd.array(Gs[0]), w)
Path(out + "/sgd_only.states").write_bytes(u.get_states())
