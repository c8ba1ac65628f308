"""Several ranks over gloo compute and decide what one rank would."""

import pytest
import torch

from contract.runtime_config import CapacityDomain, DispatchDtype, OverflowPolicy
from engine.moe.layer import MoELayer
from engine.parallel.groups import LocalGroup
from tests.engine.moe.plain import make_context
from tests.engine.moe.ranks import Case, run_ranks

TWO = tuple(range(0, 18, 2)) + tuple(range(1, 18, 2))
BY_RANK = CapacityDomain.PER_SOURCE_RANK
REPLICATED = (*range(12), *range(6, 18))
"""24 slots: experts 6 to 11 twice, once on each of two ranks."""

CASES = {
    2: [
        *(Case(f"{policy}", (23, 40), policy) for policy in OverflowPolicy if policy != "spill"),
        Case("dropless", (23, 40), factor=None),
        Case("dropless with an idle rank", (0, 17), factor=None),
        Case("drop with an idle rank", (31, 0)),
        Case("nobody has a token", (0, 0)),
        Case("scattered placement", (23, 40), placement=TWO),
        Case("fp8 on the wire", (23, 40), factor=None, wire=DispatchDtype.FP8_E4M3),
        Case("bfloat16", (23, 40), factor=None, dtype=torch.bfloat16),
        Case("replicas, dropless", (23, 40), factor=None, placement=REPLICATED),
        Case("replicas, drop", (23, 40), placement=REPLICATED),
        Case("spill", (23, 40), OverflowPolicy.SPILL, placement=REPLICATED),
        *(
            Case(f"per source rank, {policy}", (23, 40), policy, domain=BY_RANK)
            for policy in (OverflowPolicy.DROP, OverflowPolicy.REROUTE_NEXT_BEST)
        ),
        Case("per source rank, idle rank", (0, 40), domain=CapacityDomain.PER_SOURCE_RANK),
    ],
    3: [
        Case("dropless", (5, 0, 70), factor=None),
        *(Case(f"{policy}", (33, 0, 21), policy) for policy in OverflowPolicy if policy != "spill"),
        Case("one token", (0, 1, 0)),
    ],
}  # fmt: skip


@pytest.fixture(scope="module", params=sorted(CASES))
def seen(request, tmp_path_factory):
    return request.param, run_ranks(CASES[request.param], tmp_path_factory.mktemp("ranks"))


def alone(case, hidden):
    """The same tokens on one rank that holds every physical expert."""
    slots = case.placement or tuple(range(case.spec.num_experts))
    layer = MoELayer(0, case.spec, case.weights.shard(slots), LocalGroup(), case.placement)
    context = make_context(len(hidden), plan=case.plan)
    return layer.forward(hidden, context), context.recorder


def cases_of(seen):
    size, results = seen
    for case in CASES[size]:
        yield case, results[case.name]


def test_outputs_are_those_of_one_rank(seen):
    for case, ranks in cases_of(seen):
        if case.domain is CapacityDomain.PER_SOURCE_RANK:
            expected = torch.cat([alone(case, part)[0] for part in case.hidden.split(case.tokens)])
        else:
            expected = alone(case, case.hidden)[0]
        close = 2e-2 if case.dtype is torch.bfloat16 else 1e-5
        torch.testing.assert_close(
            torch.cat([rank["out"] for rank in ranks]), expected, rtol=close, atol=close,
            msg=case.name,
        )  # fmt: skip


def test_every_rank_knows_the_same_outcome(seen):
    for case, ranks in cases_of(seen):
        assert all(rank["outcome"] == ranks[0]["outcome"] for rank in ranks), case.name


def test_the_outcome_is_that_of_one_rank(seen):
    for case, ranks in cases_of(seen):
        if case.domain is CapacityDomain.PER_SOURCE_RANK or case.tokens == (0, 0):
            continue
        expected = alone(case, case.hidden)[1].outcomes[0]
        found = ranks[0]["outcome"]
        names: tuple[str, ...] = ("tokens", "slots", "overflow", "rerouted", "dropped", "executed")
        if not case.placement:
            names += ("spilled", "tokens_all_dropped")
        for name in names:
            assert found[name] == getattr(expected, name), (case.name, name)
        assert found["overflow_at_rung"] == expected.overflow_at_rung.tolist(), case.name


def test_overflow_is_rerouted_spilled_or_dropped(seen):
    for case, ranks in cases_of(seen):
        outcome = ranks[0]["outcome"]
        assignments = sum(outcome["expert_counts"])
        assert assignments == sum(case.tokens) * case.spec.top_k
        gone = outcome["rerouted"] + outcome["spilled"] + outcome["dropped"]
        assert outcome["overflow"] == gone, case.name
        assert outcome["executed"] == assignments - outcome["dropped"], case.name
        assert sum(outcome["card_counts"]) == outcome["executed"], case.name


def test_steps_repeat_exactly(seen):
    assert all(rank["repeatable"] for _, ranks in cases_of(seen) for rank in ranks)


def test_the_second_step_tells_what_the_first_exchange_cost(seen):
    for case, ranks in cases_of(seen):
        for rank in ranks:
            layer, op, wait, transfer, sent, messages = rank["exchanges"][0]
            assert [exchange[1] for exchange in rank["exchanges"]] == [0, 1]
            assert (layer, op) == (0, 0)
            assert min(wait, transfer) >= 0
            assert sent == sum(messages)
            assert len(messages) == len(case.tokens) - 1
            assert (sent > 0) or (sum(case.tokens) <= 1) or rank["out"].shape[0] == 0


def test_gate_mass_is_kept_in_full_without_overflow_and_in_part_with(seen):
    for case, ranks in cases_of(seen):
        kept = sum(rank["mass"][0] for rank in ranks)
        total = sum(rank["mass"][1] for rank in ranks)
        if ranks[0]["outcome"]["overflow"] == 0:
            assert kept == pytest.approx(total)
        else:
            assert 0 < kept < total, case.name


def test_fewer_bytes_travel_as_fp8(seen):
    size, results = seen
    if size == 2:
        native, fp8 = (results[name][0]["exchanges"][0] for name in ("dropless", "fp8 on the wire"))
        assert fp8[4] < native[4]
