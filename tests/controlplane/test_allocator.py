import subprocess
import sys

import pytest

HOLES = """
from pathlib import Path
from controlplane.allocator import few_arenas, give_back_free

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

few_arenas()
held = [bytes(30_000) for _ in range(3000)]
held = held[::10]
before = resident()
print(give_back_free(), resident() / before)
"""


def _told(program: str) -> list[str]:
    """What a process of its own prints: settings of an allocator cannot be taken back."""
    run = [sys.executable, "-c", program]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


def test_the_allocator_takes_the_settings_on_this_system():
    told = _told("from controlplane.allocator import few_arenas; print(few_arenas())")
    assert told == [str(sys.platform == "linux")]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc_trim, and /proc")
def test_holes_between_what_is_held_are_given_back():
    given, share = _told(HOLES)
    assert given == "True"
    assert float(share) < 0.6
