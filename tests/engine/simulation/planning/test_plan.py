"""Layouts: memory forces EP across nodes, not the number of experts."""

import pytest

from engine.errors import BadRequestError
from engine.simulation.cost.presets import preset
from engine.simulation.cost.topology import topology
from engine.simulation.planning.plan import Demand, plan
from engine.simulation.planning.u_curve import u_curve


def test_one_node_serves_256_experts_when_its_memory_holds_them():
    shape = preset("deepseek-v3")
    assert plan(shape, topology("hgx-h200"), 8, redundant=(0,)).best is not None
    crowded = plan(shape, topology("hgx-h100"), 8, redundant=(0,))
    assert crowded.best is None
    assert all("GB over the 80 GB" in each.refused for each in crowded.layouts)
    spread = plan(shape, topology("hgx-h100"), 64, redundant=(0,)).best
    assert spread is not None
    assert spread.crosses


def test_layouts_that_keep_the_objective_come_first_by_throughput():
    found = plan(preset("deepseek-v3"), topology("hgx-h100"), 64)
    usable = [each for each in found.layouts if not each.refused and each.tpot <= 0.05]
    rates = [each.tokens_per_second_per_card for each in usable]
    assert rates == sorted(rates, reverse=True)
    assert not found.layouts[0].refused


def test_engines_that_keep_experts_whole_refuse_tensor_parallel_experts():
    found = plan(preset("qwen3-30b-a3b"), topology("hgx-h100"), 8, engine="vllm", redundant=(0,))
    assert {each.layout.tp for each in found.layouts if not each.refused} == {1}


def test_redundant_slots_level_the_ranks():
    found = plan(preset("deepseek-v3"), topology("hgx-h100"), 32, Demand(decode_per_card=32))
    busiest = {each.layout.redundant: each.busiest for each in found.layouts if each.layout.tp == 1}
    assert busiest[32] < busiest[0]


def test_bad_input_names_field_and_bound():
    with pytest.raises(BadRequestError, match=r"gpus 0 is outside 1\.\.4096"):
        plan(preset("olmoe"), topology("hgx-h100"), 0)
    with pytest.raises(BadRequestError, match="engine 'tgi' is unknown"):
        plan(preset("olmoe"), topology("hgx-h100"), 8, engine="tgi")


def test_the_layer_time_falls_and_then_rises_over_the_ep_size():
    curve = u_curve(preset("deepseek-v3"), topology("hgx-h800"), skew=0.0)
    times = [point.total for point in curve.points]
    bottom = curve.points.index(curve.minimum)
    assert 0 < bottom < len(times) - 1
    assert times[: bottom + 1] == sorted(times[: bottom + 1], reverse=True)
    assert times[bottom:] == sorted(times[bottom:])


def test_the_first_ep_size_outside_the_domain_pays_the_step():
    where = topology("hgx-h800")
    crossing = u_curve(preset("deepseek-v3"), where).crossing(where.domain)
    assert crossing is not None
    inside, outside = crossing
    assert (inside.ranks, outside.ranks) == (8, 16)
    assert outside.dispatch > 1.3 * inside.dispatch


def test_a_domain_of_72_cards_moves_the_minimum_outwards():
    shape = preset("deepseek-v3")
    box = u_curve(shape, topology("hgx-b200"), skew=0.3).minimum.ranks
    rack = u_curve(shape, topology("nvl72"), skew=0.3).minimum.ranks
    assert box == 8
    assert rack == 64
