from dataclasses import replace

import numpy as np
import pytest
import torch

from contract.runtime_config import BiasUpdate, RuntimeConfig
from engine.errors import RefusedError
from engine.worker.live_plan import LivePlans, RankPlan, Switch, capacity_plan
from engine.worker.messages import Prepare
from engine.worker.placed_experts import PlacedExperts

CPU = torch.device("cpu")
BIAS = np.full((2, 4), 0.5, np.float32)


def make_plans() -> LivePlans:
    first = RankPlan(0, capacity_plan(RuntimeConfig()), False, torch.zeros(2, 4), None)
    return LivePlans(first, (2, 4), CPU, lambda name, rows: PlacedExperts(name, rows, ()))


def make_prepare(edition: int = 1, **changes) -> Prepare:
    prepare = Prepare(edition, 7, RuntimeConfig(capacity_factor="2"), BIAS, None, reload_bias=True)
    return replace(prepare, **changes)


def bias_of(plans: LivePlans) -> torch.Tensor:
    assert plans.live_bias is not None
    return plans.live_bias


def test_a_prepared_plan_changes_nothing_until_a_step_names_it():
    plans = make_plans()
    plans.prepare(make_prepare())
    assert plans.plan.generation == 0
    assert bias_of(plans).sum() == 0
    assert plans.switch(1).reloaded_bias
    assert plans.plan.generation == 7
    assert str(plans.plan.capacity.capacity_factor) == "2"
    assert bias_of(plans).tolist() == BIAS.tolist()


def test_switching_to_the_present_edition_does_nothing():
    plans = make_plans()
    assert plans.switch(0) == Switch()


def test_a_plan_that_does_not_reload_keeps_the_moved_bias():
    plans = make_plans()
    bias_of(plans).add_(1.0)
    plans.prepare(make_prepare(reload_bias=False, lkg_bias=BIAS))
    assert plans.switch(1) == Switch()
    assert bias_of(plans).tolist() == [[1.0] * 4] * 2
    assert plans.plan.lkg_bias is not None
    assert plans.plan.lkg_bias.tolist() == BIAS.tolist()


def test_the_live_bias_is_a_copy_of_what_was_sent():
    plans = make_plans()
    sent = BIAS.copy()
    plans.prepare(make_prepare(bias=sent, config=RuntimeConfig(bias_update=BiasUpdate.ON)))
    plans.switch(1)
    assert plans.plan.updates_bias
    bias_of(plans).add_(1.0)
    assert sent.tolist() == BIAS.tolist()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"bias": np.zeros((2, 5), np.float32)}, r"bias has shape \(2, 5\).*\(2, 4\)"),
        ({"lkg_bias": np.zeros((1, 4), np.float32)}, "lkg_bias has shape"),
        ({"bias": np.full((2, 4), np.nan, np.float32)}, "bias holds a value that is not finite"),
    ],
)
def test_a_bias_that_does_not_fit_is_refused_and_not_kept(changes, match):
    plans = make_plans()
    with pytest.raises(RefusedError, match=match):
        plans.prepare(make_prepare(**changes))
    with pytest.raises(RefusedError, match="edition 1 was not prepared"):
        plans.switch(1)


def test_a_discarded_plan_cannot_become_live():
    plans = make_plans()
    plans.prepare(make_prepare())
    plans.discard(1)
    with pytest.raises(RefusedError, match="edition 1 was not prepared"):
        plans.switch(1)


def test_a_placement_is_loaded_once_and_taken_by_the_step_that_names_it():
    plans = make_plans()
    rows = np.array([[1, 0, 3, 2]] * 2)
    moved = RuntimeConfig(placement="moved")
    plans.prepare(make_prepare(config=moved, physical_to_logical=rows))
    experts = plans.switch(1).experts
    assert experts is not None
    assert (experts.name, experts.physical_to_logical is rows) == ("moved", True)
    plans.prepare(make_prepare(edition=2, config=moved, physical_to_logical=rows))
    assert plans.switch(2).experts is None
