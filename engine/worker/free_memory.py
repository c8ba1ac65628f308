"""How much memory a rank could still take."""

from pathlib import Path

import torch

_MEMINFO = Path("/proc/meminfo")


def free_bytes(device: torch.device, ranks: int, meminfo: Path = _MEMINFO) -> int:
    """Free bytes of the rank's device; on a CPU its share of what the machine has available."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    for line in meminfo.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024 // ranks
    raise ValueError(f"{meminfo} does not state MemAvailable")
