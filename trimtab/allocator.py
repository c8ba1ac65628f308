"""How this process's memory allocator behaves: glibc's defaults suit one busy thread, not twenty.

By default each thread may get an arena of its own, and keeps in it whatever it once needed; threads
that decode and seal in turn then hold tens of megabytes each that nobody uses. The size from which
a block is mapped apart, and so given back, grows with what was freed; sealing stacks megabytes.
Source: mallopt(3).
"""

import ctypes

ARENAS = 2
MAPPED_FROM_BYTES = 1 << 20
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def few_arenas() -> bool:
    """Set it for this process, before threads start; False where the C library cannot."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_ARENA_MAX, ARENAS)) and bool(
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
    )
