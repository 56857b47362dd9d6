"""A case on PyTorch, eager."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional
from cases import Case
from values import arrays


def version() -> str:
    """Return PyTorch's version."""
    return str(torch.__version__)


def set_threads(count: int) -> None:
    """Use ``count`` threads."""
    torch.set_num_threads(count)


def prepare(case: Case, dtype: str) -> tuple[Callable[[], Any], Callable[[], Any] | None]:
    """Return functions that run forward, and forward with backward; see ``on_mxlite``."""
    inputs: dict[str, Any] = {k: torch.from_numpy(v) for k, v in arrays(case, dtype).items()}
    names = {"torch": torch, "F": torch.nn.functional}
    if case.torch_setup:
        exec(case.torch_setup, names, inputs)
    call = eval(f"lambda {', '.join(inputs)}: {case.torch}", names)

    def forward() -> Any:
        with torch.no_grad():
            return call(**inputs)

    if not case.grad:
        return forward, None
    wanted = [inputs[name].requires_grad_(True) for name in case.grad]

    def both() -> Any:
        for value in wanted:
            value.grad = None
        result = call(**inputs)
        result.backward(torch.ones_like(result))
        return [value.grad for value in wanted]

    return forward, both
