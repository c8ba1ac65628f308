import torch

from kernels.backend import choose_backend, uses_triton


def test_cpu_runs_torch_and_says_why():
    backend = choose_backend(torch.device("cpu"))
    assert backend.name == "torch"
    assert "cpu" in backend.reason
    assert not uses_triton(torch.device("cpu"))
