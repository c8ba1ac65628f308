"""The environment of a rank process: written once, before torch looks at it."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def keep_collectives_on_loopback() -> None:
    """Gloo listens where this variable says; a rank talks to ranks of its own machine only."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"


def die_with_parent() -> None:
    """On Linux, ask the kernel to kill this process when the engine's step thread ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
