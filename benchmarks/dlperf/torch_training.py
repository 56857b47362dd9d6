"""Shared parts of the trainings on PyTorch."""

import torch
from on_torch import DTYPES, device, wait


class TorchTraining:
    """A network with its optimizer and its batches.

    Subclasses set ``_params`` and ``_optimizer``, and define ``_loss``.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes, with ``rank`` and ``ranks``.
    loss_scale : float
        Factor of the loss in float16.
    """

    def __init__(self, spec, loss_scale):
        self.version = torch.__version__
        self.wait = wait
        self._spec, self._place = spec, device()
        self.synchronous = self._place.type == "cpu"
        dtype = spec["case"]["dtype"]
        for backend in (torch.backends.cuda.matmul, torch.backends.cudnn):
            backend.allow_tf32 = dtype == "tf32"
        self._dtype = "float32" if dtype == "tf32" else dtype
        self._scale = loss_scale if self._dtype == "float16" else 1.0

    def _distributed(self, net):
        """Return the network with gradients averaged over the ranks; itself on one rank."""
        if self._spec["ranks"] == 1:
            return net
        torch.distributed.init_process_group("gloo" if self._place.type == "cpu" else "nccl")
        return torch.nn.parallel.DistributedDataParallel(net)

    def _autocast(self):
        return torch.autocast(
            self._place.type, DTYPES[self._dtype], enabled=self._dtype != "float32"
        )

    def _loss(self):
        """Return the loss of the next batch."""
        raise NotImplementedError

    def _before_update(self):
        """Change the gradients, which have no loss scale any more."""

    def step(self):
        """Queue a step; return its loss, which :meth:`fetch` reads."""
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss()
        (loss * self._scale).backward()
        if self._scale != 1:
            torch._foreach_mul_([p.grad for p in self._params], 1 / self._scale)
        self._before_update()
        self._optimizer.step()
        return loss.detach()

    def fetch(self, loss):
        """Return a loss as a float, once its step has been computed."""
        return loss.item()

    def device_memory(self):
        """Return the MiB that the allocator had in use at most, and what the driver reports."""
        if self._place.type == "cpu":
            return {}
        free, total = torch.cuda.mem_get_info()
        return {
            "allocator_mib": torch.cuda.max_memory_allocated() / 2**20,
            "driver_mib": (total - free) / 2**20,
        }
