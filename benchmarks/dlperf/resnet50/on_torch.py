"""ResNet-50 v1.5 on PyTorch: channels last, eager or compiled, half types by autocast."""

import importlib.util
import os
import types

import torch
from on_torch import network, set_values
from torch.nn import functional

from ..torch_training import TorchTraining
from . import recipe


def _pictures(spec):
    """Return the record's pictures as a data set with the recipe's transforms."""
    try:
        from torchvision import transforms
    except ImportError as error:
        raise ImportError(
            "reading records on PyTorch needs torchvision and Pillow: "
            f".venv-peers/bin/pip install torchvision Pillow ({error})"
        ) from error
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "io", "worker.py")
    found = importlib.util.spec_from_file_location("io_worker", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    pictures = module.Pictures(types.SimpleNamespace(record=spec["record"]))
    jitter = recipe.JITTER
    pictures.transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(spec["case"]["size"], recipe.AREA, recipe.ASPECT),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(jitter, jitter, jitter),
            transforms.PILToTensor(),
            transforms.ConvertImageDtype(torch.float32),
            transforms.Normalize([m / 255 for m in recipe.MEAN], [s / 255 for s in recipe.STD]),
        ]
    )
    return pictures


class Training(TorchTraining):
    """A network with its optimizer and its batches.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    variant : str
        ``"eager"`` or ``"compile"``.
    """

    def __init__(self, spec, variant):
        super().__init__(spec, recipe.LOSS_SCALE)
        torch.backends.cudnn.benchmark = True
        net = network(spec)
        set_values(net, spec)
        net = net.train().to(self._place).to(memory_format=torch.channels_last)
        self._params = list(net.parameters())
        net = self._distributed(net)
        self._optimizer = torch.optim.SGD(
            self._params,
            lr=recipe.LEARNING_RATE * spec["ranks"],
            momentum=recipe.MOMENTUM,
            weight_decay=recipe.WEIGHT_DECAY,
            nesterov=True,
            fused=True,
        )

        def objective(data, target):
            with self._autocast():
                scores = net(data)
            return functional.cross_entropy(scores.float(), target)

        self._objective = torch.compile(objective) if variant == "compile" else objective
        data, label = recipe.resident_batch(spec)
        self._resident = self._on_device(torch.from_numpy(data), torch.from_numpy(label))
        self._records = None

    def _on_device(self, data, label):
        data = data.to(self._place, non_blocking=True)
        data = data.contiguous(memory_format=torch.channels_last)
        return data, label.to(self._place, torch.int64, non_blocking=True)

    def read_records(self):
        """Take the batches of later steps from the record file."""
        spec, pictures = self._spec, _pictures(self._spec)
        sampler = None
        if spec["ranks"] > 1:
            sampler = torch.utils.data.distributed.DistributedSampler(pictures)
        loader = torch.utils.data.DataLoader(
            pictures,
            spec["case"]["batch"],
            shuffle=sampler is None,
            sampler=sampler,
            num_workers=spec["threads"],
            persistent_workers=True,
            drop_last=True,
            pin_memory=self._place.type == "cuda",
        )

        def endless():
            while True:
                yield from loader

        self._records = endless()

    def _loss(self):
        if self._records is None:
            return self._objective(*self._resident)
        return self._objective(*self._on_device(*next(self._records)))


def prepare(spec, variant):
    """Return the training; see ``on_mxlite.prepare``."""
    return Training(spec, variant)
