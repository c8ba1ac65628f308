"""Errors on held-out measurements, and that the committed constants are what a refit gives."""

from dataclasses import astuple

import pytest

from engine.simulation.cost.exchange_fits import LOW_LATENCY, NORMAL
from engine.simulation.cost.expert import EXPERT_FITS
from trimtab.bench import calibration, cost_model, expert_tables

pytestmark = pytest.mark.skipif(
    not calibration.DATA.exists(), reason="the recorded tables are not beside the checkout"
)


def test_the_goals_of_the_cost_model_hold_on_held_out_rows():
    figures = {figure.name: figure for figure in cost_model.run()}
    assert figures["cost_model.low_latency.max_error_ratio"].holds
    assert figures["cost_model.normal.max_error_ratio"].holds
    assert figures["cost_model.sglang_decode.median_error_ratio"].value < 0.15


@pytest.mark.parametrize("op", ["dispatch", "combine"])
def test_a_refit_gives_the_committed_exchange_constants(op):
    refit = {
        "rdma": calibration.low_latency_fit(
            calibration.published_low_latency(op), calibration.H800.domain_rate
        ),
        "nvlink": calibration.low_latency_fit(
            calibration.recorded_low_latency(op), calibration.H100.domain_rate
        ),
    }
    for family, fit in refit.items():
        assert astuple(fit)[:-1] == pytest.approx(astuple(LOW_LATENCY[family, op])[:-1], rel=0.002)
    normal = calibration.normal_fit(op)
    assert astuple(normal)[:-1] == pytest.approx(astuple(NORMAL["nvlink", op])[:-1], rel=0.002)
    reached = calibration.published_normal_efficiency(op)
    assert reached == pytest.approx(NORMAL["rdma", op].network_efficiency, rel=0.002)


@pytest.mark.parametrize(
    ("kernel", "table", "where"),
    [
        ("masked", lambda: expert_tables.sglang("moe_generation"), calibration.H100),
        ("contiguous", lambda: expert_tables.sglang("moe_context"), calibration.H100),
        ("cutlass", expert_tables.tensorrt_llm, calibration.H200),
    ],
)
def test_a_refit_gives_the_committed_expert_constants(kernel, table, where):
    fit = calibration.expert_fit(table(), where.memory_rate, where.fp8_rate)
    assert astuple(fit)[:-1] == pytest.approx(astuple(EXPERT_FITS[kernel])[:-1], rel=0.002)
