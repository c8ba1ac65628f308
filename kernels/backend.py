"""Which implementation serves a device, and why: Triton on CUDA, plain torch elsewhere.

The public function of every op asks here once per call; nothing is patched at import time.
"""

from dataclasses import dataclass
from importlib.util import find_spec

import torch


@dataclass(frozen=True, slots=True)
class Backend:
    """The choice for one device.

    Attributes:
        name: "triton" or "torch".
        reason: one sentence for the start-up log.
    """

    name: str
    reason: str


def choose_backend(device: torch.device) -> Backend:
    """Triton where the device is CUDA and triton is installed; torch otherwise."""
    if device.type != "cuda":
        return Backend("torch", f"device {device.type} has no Triton backend: torch references run")
    if find_spec("triton") is None:
        return Backend("torch", "triton is not installed: torch references run on CUDA")
    name = torch.cuda.get_device_name(device)
    return Backend("triton", f"CUDA device {name}: Triton kernels run")


def uses_triton(device: torch.device) -> bool:
    """Whether an op on this device runs its Triton kernel."""
    return device.type == "cuda" and find_spec("triton") is not None
