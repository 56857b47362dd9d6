"""Shape, indexing, reduction, sorting and random operators."""

from __future__ import annotations

from .case import Case, case, index, positive

_BIG = (1024, 1024)
_IMAGE = (32, 64, 32, 32)


def _shape() -> list[Case]:
    return [
        case("transpose", "rearrange", "data.t().contiguous()", grad="data", data=_BIG),
        case("transpose", "rearrange", "data.permute(0, 2, 3, 1).contiguous()", grad="data",
             data=_IMAGE, params={"axes": (0, 2, 3, 1)}),
        case("SwapAxis", "rearrange", "data.transpose(0, 1).contiguous()", grad="data",
             data=_BIG, params={"dim1": 0, "dim2": 1}),
        case("reverse", "rearrange", "torch.flip(data, (1,))", grad="data", data=_BIG,
             params={"axis": 1}),
        case("repeat", "rearrange", "torch.repeat_interleave(data, 4, 1)", grad="data",
             data=(512, 512), params={"repeats": 4, "axis": 1},
             note="the gradient is a sum over runs of four, which has a cost per result"),
        case("tile", "rearrange", "data.repeat(2, 2)", grad="data", data=(512, 512),
             params={"reps": (2, 2)}),
        case("pad", "rearrange", "F.pad(data, (2, 2, 2, 2))", grad="data", data=_IMAGE,
             params={"mode": "constant", "pad_width": (0, 0, 0, 0, 2, 2, 2, 2)}),
        case("pad", "rearrange", "F.pad(data, (2, 2, 2, 2), 'reflect')", grad="data",
             data=_IMAGE, params={"mode": "reflect", "pad_width": (0, 0, 0, 0, 2, 2, 2, 2)}),
        case("depth_to_space", "rearrange", "F.pixel_shuffle(data, 2)", grad="data", data=_IMAGE,
             params={"block_size": 2}),
        case("space_to_depth", "rearrange", "F.pixel_unshuffle(data, 2)", grad="data",
             data=_IMAGE, params={"block_size": 2}),
        case("Concat", "rearrange", "torch.cat((a, b), 1)", grad="a b", a=_BIG, b=_BIG,
             params={"dim": 1}),
        case("stack", "rearrange", "torch.stack((a, b), 0)", grad="a b", a=_BIG, b=_BIG),
        case("split", "rearrange", "[x.contiguous() for x in torch.chunk(data, 4, 1)]",
             data=_BIG, params={"num_outputs": 4, "axis": 1}),
        case("broadcast_to", "rearrange", "data.expand(1024, 1024).contiguous()", grad="data",
             data=(1024, 1), params={"shape": _BIG}),
        case("diag", "rearrange", "torch.diag(data)", data=(2048,)),
    ]  # fmt: skip


def _indexing() -> list[Case]:
    return [
        case("slice", "indexing", "data[100:900, 100:900].contiguous()", grad="data", data=_BIG,
             params={"begin": (100, 100), "end": (900, 900)}),
        case("slice_axis", "indexing", "data[:, 100:900].contiguous()", grad="data", data=_BIG,
             params={"axis": 1, "begin": 100, "end": 900}),
        case("take", "indexing", "torch.index_select(a, 0, indices)", grad="a", a=(10000, 256),
             indices=index((4096,), 10000, "int64")),
        case("Embedding", "indexing", "F.embedding(data, weight)", grad="weight",
             data=index((64, 128), 10000, "int64"), weight=(10000, 256),
             params={"input_dim": 10000, "output_dim": 256}),
        case("pick", "indexing", "torch.gather(data, 1, index[:, None])[:, 0]", grad="data",
             data=(4096, 1000), index=index((4096,), 1000, "int64")),
        case("batch_take", "indexing", "torch.gather(a, 1, indices[:, None])[:, 0]",
             a=(4096, 1000), indices=index((4096,), 1000, "int32"),
             torch_setup="indices = indices.long()"),
        case("gather_nd", "indexing", "data[indices[0], indices[1]]", grad="data", data=_BIG,
             indices=index((2, 262144), 1024, "int64")),
        case("one_hot", "indexing", "F.one_hot(indices, 1000).float()",
             indices=index((4096,), 1000, "int64"), params={"depth": 1000}),
        case("SequenceMask", "indexing", "", data=(128, 64, 64), grad="data",
             sequence_length=index((64,), 128), params={"use_sequence_length": True},
             note="no operator of its own in PyTorch"),
    ]  # fmt: skip


def _reduction() -> list[Case]:
    rows = []
    for name, torch in {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}.items():
        for axis in (0, 1):
            rows.append(
                case(name, "reduction", f"torch.{torch}(data, {axis})", grad="data", data=_BIG,
                     params={"axis": axis},
                     note="a NaN is looked for in every step" if name in ("max", "min") else "")
            )  # fmt: skip
        whole = f"torch.{torch}(data)"
        rows.append(case(name, "reduction", whole, grad="data", data=_BIG))
    return rows + [
        case("prod", "reduction", "torch.prod(data, 1)", grad="data", data=positive(*_BIG),
             params={"axis": 1}),
        case("nansum", "reduction", "torch.nansum(data, 1)", grad="data", data=_BIG,
             params={"axis": 1}),
        case("nanprod", "reduction", "torch.prod(torch.nan_to_num(data, 1.0), 1)",
             data=positive(*_BIG), params={"axis": 1}),
        case("norm", "reduction", "torch.linalg.vector_norm(data, 2, 1)", grad="data", data=_BIG,
             params={"axis": 1}),
        case("argmax", "reduction", "torch.argmax(data, 1)", data=_BIG, params={"axis": 1}),
        case("argmin", "reduction", "torch.argmin(data, 1)", data=_BIG, params={"axis": 1}),
        case("cumsum", "reduction", "torch.cumsum(a, 1)", grad="a", a=_BIG, params={"axis": 1}),
        case("moments", "reduction", "torch.var_mean(data, 1, correction=0)", data=_BIG,
             params={"axes": (1,)}),
    ]  # fmt: skip


def _sorting() -> list[Case]:
    return [
        case("sort", "sorting", "torch.sort(data, -1)[0]", data=_BIG),
        case("argsort", "sorting", "torch.argsort(data, -1)", data=_BIG),
        case("argsort", "sorting", "torch.argsort(data)", data=(262144,)),
        case("topk", "sorting", "torch.topk(data, 10)[1]", data=_BIG, params={"k": 10}),
        case("shuffle", "sorting", "data[torch.randperm(data.shape[0])]", data=_BIG),
    ]  # fmt: skip


def _random() -> list[Case]:
    shape = {"shape": _BIG}
    return [
        case("random_uniform", "random", "torch.rand(1024, 1024)", params=shape),
        case("random_normal", "random", "torch.randn(1024, 1024)", params=shape),
        case("random_exponential", "random", "torch.empty(1024, 1024).exponential_()",
             params=shape),
        case("random_gamma", "random", "torch._standard_gamma(torch.full((1024, 1024), 2.0))",
             params={**shape, "alpha": 2.0}),
        case("random_poisson", "random", "torch.poisson(torch.full((1024, 1024), 4.0))",
             params={**shape, "lam": 4.0}),
        case("random_randint", "random", "torch.randint(0, 100, (1024, 1024), dtype=torch.int32)",
             params={**shape, "low": 0, "high": 100},
             note="a counter of the generator per number, whatever its size: numbers do not "
             "depend on threads"),
        case("sample_multinomial", "random", "torch.multinomial(data, 16, True)",
             data=positive(4096, 100), setup="data = data / data.sum(1, keepdims=True)",
             params={"shape": 16}),
        case("Dropout", "random", "F.dropout(data, 0.5)", data=_BIG, grad="data",
             params={"p": 0.5, "mode": "always"}),
    ]  # fmt: skip


CASES = _shape() + _indexing() + _reduction() + _sorting() + _random()
