"""Write networks of PyTorch as ONNX, with random parameters, inputs and outputs.

Run by onnx_imports.py in the environment of the peers: ``torch_export.py EXPORTER FOLDER NAME...``
writes NAME.onnx and NAME.npz for each network, and prints a JSON line: name, error or null.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torchvision

# Name in torchvision.models -> height and width of the images.
IMAGES = {
    "alexnet": 224, "vgg11_bn": 224, "resnet18": 64, "resnext50_32x4d": 64, "mobilenet_v2": 64,
    "mobilenet_v3_small": 64, "densenet121": 64, "squeezenet1_1": 64, "inception_v3": 139,
    "googlenet": 64, "shufflenet_v2_x0_5": 64, "efficientnet_b0": 64, "mnasnet0_5": 64,
    "regnet_y_400mf": 64, "convnext_tiny": 64, "vit_b_16": 224, "swin_t": 64,
}  # fmt: skip
# Names in torchvision.models.detection; the number of boxes depends on values.
DETECTORS = (
    "ssd300_vgg16", "ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn",
    "fasterrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn",
)  # fmt: skip
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT = {"vocab_size": 100, "max_position_embeddings": 32}
# Name -> model class of transformers, configuration class, arguments of the configuration.
TRANSFORMERS = {
    "bert": ("BertModel", "BertConfig", {**SIZES, **_TEXT, "intermediate_size": 96}),
    "distilbert": (
        "DistilBertModel", "DistilBertConfig",
        {"dim": 48, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, **_TEXT},
    ),
    "gpt2": (
        "GPT2LMHeadModel", "GPT2Config",
        {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 32},
    ),
    "vit": (
        "ViTModel", "ViTConfig",
        {**SIZES, "intermediate_size": 96, "image_size": 32, "patch_size": 8},
    ),
}  # fmt: skip


class FirstOutput(torch.nn.Module):
    """A model of transformers that returns only its first output."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        """Return the first output."""
        names = ("pixel_values",) if inputs[0].is_floating_point() else (
            "input_ids", "attention_mask")  # fmt: skip
        return self.model(**dict(zip(names, inputs)), return_dict=False)[0]


def build_detector(name):
    """Return a detector whose scores differ, and an image."""
    sizes = {} if name.startswith("ssd") else {"min_size": 160, "max_size": 200}
    make = getattr(torchvision.models.detection, name)
    net = make(weights=None, weights_backbone=None, num_classes=5, **sizes).eval()
    images = list(torch.rand(2, 3, 128, 160))
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.train()
            if name.startswith("ssdlite"):
                module.momentum = 1  # else, scores differ by rounding only
    for key, parameter in net.named_parameters():
        if key.endswith("cls_logits.bias"):  # the constructor's value leaves no score above 0.05
            torch.nn.init.normal_(parameter, -2, 0.5)
    with torch.no_grad():
        net(images)  # moves running means and variances away from 0 and 1
    return net.eval(), (images[:1],)


def build(name):
    """Return a network in inference mode, and its inputs."""
    torch.manual_seed(0)
    if name in DETECTORS:
        return build_detector(name)
    if name in IMAGES:
        fixed = {"aux_logits": False, "init_weights": True}
        more = fixed if name in ("inception_v3", "googlenet") else {}
        net = getattr(torchvision.models, name)(weights=None, num_classes=10, **more)
        inputs = (torch.randn(2, 3, IMAGES[name], IMAGES[name]),)
        with torch.no_grad():
            net.train()(*inputs)  # moves running means and variances away from 0 and 1
            if not net.eval()(*inputs).any():  # some parameters were initialized to 0
                for parameter in net.parameters():
                    if not parameter.any():
                        parameter.normal_(0, 0.02)
        return net.eval(), inputs
    import transformers

    model, config, values = TRANSFORMERS[name]
    settings = getattr(transformers, config)(**values, attn_implementation="eager")
    net = FirstOutput(getattr(transformers, model)(settings)).eval()
    if name == "vit":
        return net, (torch.randn(2, 3, 32, 32),)
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 9:] = 0
    return net, (torch.randint(0, 100, (2, 12)), mask)


def write(name, exporter, folder):
    """Write a network and its data."""
    net, inputs = build(name)
    with torch.no_grad():
        output = net(*inputs)
    path = folder / f"{name}.onnx"
    if exporter == "dynamo":
        torch.onnx.export(net, inputs, str(path), dynamo=True, verbose=False)
    else:
        names = [f"x{i}" for i in range(len(inputs))]
        free = {} if name in DETECTORS else {key: {0: "batch"} for key in names}
        torch.onnx.export(net, inputs, str(path), dynamo=False, opset_version=17,
                          input_names=names, dynamic_axes=free)  # fmt: skip
    if name in DETECTORS:
        inputs, output = inputs[0], output[0].values()
    outputs = [output] if isinstance(output, torch.Tensor) else output
    arrays = {f"x{i}": value.numpy() for i, value in enumerate(inputs)}
    arrays |= {f"y{i}": value.numpy() for i, value in enumerate(outputs)}
    np.savez(folder / f"{name}.npz", **arrays)


def main():
    """Write the networks of the command line."""
    exporter, folder = sys.argv[1], Path(sys.argv[2])
    warnings.simplefilter("ignore")
    answers = sys.stdout
    sys.stdout = sys.stderr
    for name in sys.argv[3:] or [*IMAGES, *TRANSFORMERS, *DETECTORS]:
        error = None
        try:
            write(name, exporter, folder)
        except Exception as failed:
            error = f"{type(failed).__name__}: {str(failed).splitlines()[0][:200]}"
        answers.write(json.dumps({"name": name, "error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
