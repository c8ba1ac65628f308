"""Where kernels are tested: interpreted on CPU, compiled on a GPU; fresh memory is poisoned."""

import pytest
import torch


@pytest.fixture(scope="session")
def device():
    """CUDA where there is one; else CPU under Triton's interpreter (`tests/conftest.py`)."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """Whatever a kernel leaves unwritten is NaN, or a huge integer."""
    empty = torch.empty

    def poisoned(*shape, **options):
        memory = empty(*shape, **options)
        if memory.dtype is torch.float8_e4m3fn:
            return memory.view(torch.uint8).fill_(0x7F).view(torch.float8_e4m3fn)
        return memory.fill_(float("nan") if memory.dtype.is_floating_point else 2**40)

    monkeypatch.setattr(torch, "empty", poisoned)


def assert_near(found, expected, *, rms=1e-5):
    """Relative RMS error; NaN on either side fails."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert not found.float().isnan().any()
    assert not expected.float().isnan().any()
    scale = expected.float().norm()
    error = (found.float() - expected.float()).norm()
    assert error <= rms * max(float(scale), 1e-9), f"relative RMS error {error / scale}"
