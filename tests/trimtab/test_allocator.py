import subprocess
import sys


def test_the_allocator_takes_the_settings_on_this_system():
    # In a process of its own: they cannot be taken back.
    program = "from trimtab.allocator import few_arenas; print(few_arenas())"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() in {"True", "False"}
    if sys.platform == "linux":
        assert told.stdout.strip() == "True"
