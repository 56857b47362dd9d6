"""Layers, losses, matrix products, linear algebra and optimizer updates."""

from __future__ import annotations

from .case import Case, case, index, positive

_BIG = (1024, 1024)
_IMAGE = (32, 64, 56, 56)


def _gemm() -> list[Case]:
    return [
        case("dot", "gemm", "lhs @ rhs", grad="lhs rhs", lhs=_BIG, rhs=_BIG),
        case("dot", "gemm", "lhs @ rhs.t()", grad="lhs rhs", lhs=(1000, 500), rhs=(1000, 500),
             params={"transpose_b": True}),
        case("dot", "gemm", "lhs @ rhs", grad="lhs rhs", lhs=(4096, 4096), rhs=(4096, 1)),
        case("batch_dot", "gemm", "torch.bmm(lhs, rhs)", grad="lhs rhs", lhs=(64, 128, 128),
             rhs=(64, 128, 128)),
        case("FullyConnected", "gemm", "F.linear(data, weight, bias)", grad="data weight bias",
             data=(64, 2048), weight=(1000, 2048), bias=(1000,), params={"num_hidden": 1000}),
        case("FullyConnected", "gemm", "F.linear(data, weight, bias)", grad="data weight bias",
             data=(1, 4096), weight=(4096, 4096), bias=(4096,), params={"num_hidden": 4096}),
    ]  # fmt: skip


def _convolution() -> list[Case]:
    rows = []
    for filters, kernel, stride in ((64, 3, 1), (128, 3, 2), (256, 1, 1)):
        pad = kernel // 2
        rows.append(
            case("Convolution", "convolution",
                 f"F.conv2d(data, weight, bias, {stride}, {pad})", grad="data weight bias",
                 data=_IMAGE, weight=(filters, 64, kernel, kernel), bias=(filters,),
                 params={"kernel": (kernel, kernel), "stride": (stride, stride),
                         "pad": (pad, pad), "num_filter": filters})
        )  # fmt: skip
    return rows + [
        case("Convolution", "convolution", "F.conv2d(data, weight, None, 1, 1, 1, 64)",
             grad="data weight", data=_IMAGE, weight=(64, 1, 3, 3),
             params={"kernel": (3, 3), "pad": (1, 1), "num_filter": 64, "num_group": 64,
                     "no_bias": True}),
        case("Convolution", "convolution", "F.conv1d(data, weight, bias, 1, 1)",
             grad="data weight bias", data=(32, 64, 512), weight=(64, 64, 3), bias=(64,),
             params={"kernel": (3,), "pad": (1,), "num_filter": 64}),
        case("Deconvolution", "deconvolution", "F.conv_transpose2d(data, weight, None, 2, 1)",
             grad="data weight", data=(16, 64, 28, 28), weight=(64, 32, 4, 4),
             params={"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), "num_filter": 32}),
    ]  # fmt: skip


def _pooling() -> list[Case]:
    window = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}
    whole = {"kernel": (1, 1), "global_pool": True}
    return [
        case("Pooling", "pooling", "F.max_pool2d(data, 3, 2, 1)", grad="data", data=_IMAGE,
             params={**window, "pool_type": "max"}),
        case("Pooling", "pooling", "F.avg_pool2d(data, 3, 2, 1)", grad="data", data=_IMAGE,
             params={**window, "pool_type": "avg"}),
        case("Pooling", "pooling", "F.adaptive_avg_pool2d(data, 1)", grad="data", data=_IMAGE,
             params={**whole, "pool_type": "avg"}),
        case("Pooling", "pooling", "F.adaptive_max_pool2d(data, 1)", grad="data", data=_IMAGE,
             params={**whole, "pool_type": "max"}),
    ]  # fmt: skip


def _norm() -> list[Case]:
    channel = {"gamma": (64,), "beta": (64,)}
    return [
        case("BatchNorm", "nn basic",
             "F.batch_norm(data, moving_mean, moving_var, gamma, beta)", data=_IMAGE, **channel,
             moving_mean=(64,), moving_var=positive(64), params={"fix_gamma": False}),
        case("LayerNorm", "nn basic", "F.layer_norm(data, (1024,), gamma, beta)",
             grad="data gamma beta", data=_BIG, gamma=(1024,), beta=(1024,)),
        case("GroupNorm", "nn basic", "F.group_norm(data, 8, gamma, beta)",
             grad="data gamma beta", data=_IMAGE, **channel, params={"num_groups": 8}),
        case("InstanceNorm", "nn basic", "F.instance_norm(data, None, None, gamma, beta)",
             grad="data gamma beta", data=_IMAGE, **channel),
        case("L2Normalization", "nn basic", "F.normalize(data, dim=1)", grad="data", data=_BIG),
        case("LRN", "nn basic", "F.local_response_norm(data, 5)", grad="data",
             data=(8, 64, 56, 56), params={"nsize": 5}),
        case("UpSampling", "nn basic", "F.interpolate(data, scale_factor=2)", grad="data",
             data=(8, 64, 56, 56), params={"scale": 2, "sample_type": "nearest"}),
        case("contrib.BilinearResize2D", "nn basic",
             "F.interpolate(data, (112, 112), mode='bilinear', align_corners=True)", grad="data",
             data=(8, 64, 56, 56), params={"height": 112, "width": 112}),
        case("contrib.AdaptiveAvgPooling2D", "nn basic", "F.adaptive_avg_pool2d(data, 7)",
             grad="data", data=_IMAGE, params={"output_size": 7}),
        case("im2col", "nn basic", "F.unfold(data, 3, padding=1)", grad="data",
             data=(8, 32, 56, 56), params={"kernel": (3, 3), "pad": (1, 1)}),
    ]  # fmt: skip


def _loss() -> list[Case]:
    return [
        case("smooth_l1", "loss", "F.smooth_l1_loss(data, torch.zeros_like(data), "
             "reduction='none')", grad="data", data=_BIG, params={"scalar": 1.0}),
        case("softmax_cross_entropy", "loss", "F.cross_entropy(data, label, reduction='sum')",
             data=(4096, 1000), label=index((4096,), 1000, "float32"),
             torch_setup="label = label.long()"),
        case("CTCLoss", "loss", "F.ctc_loss(F.log_softmax(data, -1), label, "
             "(100,) * 32, (20,) * 32, reduction='none')", grad="data", data=(100, 32, 200),
             label=index((32, 20), 199, "float32"), setup="label = label + 1",
             torch_setup="label = label.long()",
             note="forward makes the gradient too, from the same tables; with backward it is "
             "the whole work of both"),
    ]  # fmt: skip


def _linalg() -> list[Case]:
    square = (16, 128, 128)
    spd = "A = A @ A.swapaxes(-1, -2) + 128 * np.eye(128, dtype=A.dtype)"
    return [
        case("linalg.gemm2", "linalg", "A @ B", grad="A B", A=square, B=square),
        case("linalg.syrk", "linalg", "A @ A.transpose(-1, -2)", grad="A", A=square),
        case("linalg.potrf", "linalg", "torch.linalg.cholesky(A)", A=square, setup=spd),
        case("linalg.trsm", "linalg", "torch.linalg.solve_triangular(A, B, upper=False)",
             A=square, B=square, setup=spd),
        case("linalg.inverse", "linalg", "torch.linalg.inv(A)", A=square, setup=spd),
        case("linalg.det", "linalg", "torch.linalg.det(A)", A=square, setup=spd),
    ]  # fmt: skip


def _optimizer() -> list[Case]:
    shape = (1024, 1024)
    rate = {"lr": 0.1}
    return [
        case("sgd_update", "optimizer", "weight.sub_(0.1 * grad)", weight=shape, grad_=shape,
             params=rate),
        case("sgd_mom_update", "optimizer",
             "weight.add_(mom.mul_(0.9).sub_(grad, alpha=0.1))", weight=shape, grad_=shape,
             mom=shape, params={**rate, "momentum": 0.9}),
        case("adam_update", "optimizer",
             "torch._fused_adam_([weight], [grad], [mean], [var], [], [torch.tensor(1.0)], "
             "lr=0.1, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, "
             "maximize=False)",
             weight=shape, grad_=shape, mean=positive(*shape), var=positive(*shape),
             params=rate),
        case("rmsprop_update", "optimizer", "", weight=shape, grad_=shape, n=positive(*shape),
             params=rate, note="PyTorch's is a Python loop of several operators"),
        case("signsgd_update", "optimizer", "weight.sub_(0.1 * torch.sign(grad))",
             weight=shape, grad_=shape, params=rate),
    ]  # fmt: skip


CASES = _gemm() + _convolution() + _pooling() + _norm() + _loss() + _linalg() + _optimizer()
