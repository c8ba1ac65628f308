"""A trace file as workload: its requests, at its rate or at another."""

import pytest

from trimtab.errors import InputError
from trimtab.simulated.recorded import recorded_workload

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:48.6805900,396,109
2023-11-16 18:15:50.6805900,879,55
"""


@pytest.fixture
def trace(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text(AZURE)
    return file


def test_requests_come_as_recorded(trace):
    workload = recorded_workload(trace)
    assert workload.times.tolist() == pytest.approx([0, 2, 4])
    assert workload.prompts.tolist() == [374, 396, 879]
    assert workload.outputs.tolist() == [44, 109, 55]


def test_another_mean_rate_squeezes_the_times(trace):
    assert recorded_workload(trace, rate=5.0).times.tolist() == pytest.approx([0, 0.2, 0.4])


def test_a_file_that_is_none_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"no\.csv: there is no such file"):
        recorded_workload(tmp_path / "no.csv")
