"""How this process's memory allocator behaves: glibc's defaults suit one busy thread, not twenty.

By default each thread may get an arena of its own, and keeps in it whatever it once needed; threads
that decode and seal in turn then hold tens of megabytes each that nobody uses. The size from which
a block is mapped apart, and so given back, grows with what was freed: here it is fixed, and so is
how much stays free at the end of an arena. Sealing takes and frees megabytes all the time: with
less kept, a quarter of its time went into faulting the same pages in again. Sources: mallopt(3),
malloc_trim(3).
"""

import ctypes

ARENAS = 2
MAPPED_FROM_BYTES = 8 << 20
KEPT_FREE_BYTES = 32 << 20
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def give_back_free() -> bool:
    """Give free pages between those in use back to the system; False where nothing was free.

    Frames that are held for some seconds lie among what sealing takes and frees: without this the
    holes between them add up over half an hour.
    """
    try:
        return bool(ctypes.CDLL("libc.so.6").malloc_trim(0))
    except (OSError, AttributeError):
        return False


def few_arenas() -> bool:
    """Set it for this process, before threads start; False where the C library cannot."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    wanted = (
        (_M_ARENA_MAX, ARENAS),
        (_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES),
        (_M_TRIM_THRESHOLD, KEPT_FREE_BYTES),
    )
    taken = [bool(mallopt(parameter, value)) for parameter, value in wanted]
    return all(taken)
