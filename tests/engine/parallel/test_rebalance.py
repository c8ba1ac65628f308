"""The balancer against the published example, and what it promises on any load."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadRequestError
from engine.parallel.placement import linear
from engine.parallel.rebalance import balanced_packing, rebalance, replicate

EXAMPLE = (
    Path(__file__).parents[3].parent
    / "shared" / "data" / "eplb_reference" / "deepseek_eplb_readme_example.json"
)  # fmt: skip


def test_the_published_worked_example():
    if not EXAMPLE.exists():
        pytest.skip(f"{EXAMPLE.name} is not beside this checkout")
    example = json.loads(EXAMPLE.read_text())
    placement = rebalance(
        np.array(example["weight"], dtype=float), num_slots=example["num_replicas"],
        ranks=example["num_gpus"], num_groups=example["num_groups"], nodes=example["num_nodes"],
    )  # fmt: skip
    assert placement.physical_to_logical.tolist() == example["expected_phy2log"]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    nodes=st.integers(1, 3),
    ranks_per_node=st.integers(1, 3),
    per_rank=st.integers(4, 8),
    skew=st.floats(0, 2),
)
def test_a_balanced_placement_is_valid_and_no_worse_than_linear(
    seed, nodes, ranks_per_node, per_rank, skew
):
    ranks = nodes * ranks_per_node
    experts = ranks * (per_rank - 1)
    loads = np.random.default_rng(seed).lognormal(0, skew, (2, experts))
    balanced = rebalance(
        loads, num_slots=ranks * per_rank, ranks=ranks, num_groups=nodes, nodes=nodes
    )
    assert balanced.slots_per_rank == per_rank
    if nodes == 1:
        best, plain = balanced.rank_load(loads), linear(2, experts, ranks).rank_load(loads)
        assert (best.max(1) <= plain.max(1) * 1.34 + 1e-9).all()
        assert best.sum(1) == pytest.approx(loads.sum(1))


def test_hierarchical_keeps_a_group_on_one_node():
    loads = np.random.default_rng(3).lognormal(0, 1, (1, 16))
    placement = rebalance(loads, num_slots=24, ranks=4, num_groups=4, nodes=2)
    nodes = [set(row // 4) for row in placement.physical_to_logical[0].reshape(2, 12)]
    assert not nodes[0] & nodes[1]


def test_groups_that_do_not_split_over_nodes_are_balanced_globally():
    loads = np.array([[100.0, 1, 1, 1, 1, 1]])
    hierarchical = rebalance(loads, num_slots=8, ranks=2, num_groups=3, nodes=2)
    assert hierarchical.replicas(0).tolist() == [3, 1, 1, 1, 1, 1]
    assert np.ptp(hierarchical.rank_load(loads)) < 40


def test_packing_fills_equally_and_replicas_go_to_the_hottest():
    pack, place = balanced_packing(np.array([5.0, 4, 3, 2]), 2)
    assert pack.tolist() == [0, 1, 1, 0]
    assert place.tolist() == [0, 0, 1, 1]
    expert, copies = replicate(np.array([1.0, 9, 4]), 5)
    assert expert.tolist() == [0, 1, 2, 1, 1]
    assert copies.tolist() == [1, 3, 1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"num_slots": 9}, "num_slots"), ({"num_slots": 4}, "num_slots"), ({"nodes": 3}, "ranks"),
     ({"num_groups": 4}, "num_experts")],
)  # fmt: skip
def test_sizes_that_do_not_divide_are_refused_by_field(changes, field):
    sizes = {"num_slots": 8, "ranks": 4, "num_groups": 1, "nodes": 1} | changes
    with pytest.raises(BadRequestError) as caught:
        rebalance(np.ones((1, 6)), **sizes)
    assert caught.value.field == field
