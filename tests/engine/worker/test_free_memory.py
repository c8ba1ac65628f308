import pytest
import torch

from engine.worker.free_memory import free_bytes

CPU = torch.device("cpu")


def test_a_cpu_rank_gets_its_share_of_what_the_machine_has(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:  600 kB\n")
    assert free_bytes(CPU, 2, meminfo) == 300 * 1024


def test_an_unreadable_machine_is_named(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000 kB\n")
    with pytest.raises(ValueError, match="does not state MemAvailable"):
        free_bytes(CPU, 2, meminfo)


def test_this_machine_has_some():
    assert free_bytes(CPU, 1) > 0
