"""The environment of a rank process: written once, before torch looks at it."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_THRESHOLD_BYTES = 32 << 20
"""The most that glibc takes."""
_TRIM_THRESHOLD_BYTES = 512 << 20


def keep_collectives_on_loopback() -> None:
    """Gloo listens where this variable says; a rank talks to ranks of its own machine only."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"


def die_with_parent() -> None:
    """On Linux, ask the kernel to kill this process when the engine's step thread ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def keep_freed_memory() -> None:
    """Have glibc's malloc keep what a step frees for the next step.

    By default tensors above a threshold are mapped and unmapped each time, and every page of them
    is faulted in and zeroed again: a third of a decode step on the CPU. No effect elsewhere.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
