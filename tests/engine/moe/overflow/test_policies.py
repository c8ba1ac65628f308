"""Every overflow policy keeps the same promises; then each its own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.runtime_config import OverflowPolicy
from engine.errors import RefusedError
from engine.moe.overflow import POLICIES, Contest, check_policy
from engine.moe.overflow.base import positions


@st.composite
def contests(draw):
    """A skewed routing of T tokens with the next best candidates of each, and a capacity."""
    experts = draw(st.integers(2, 12))
    top_k = draw(st.integers(1, experts))
    tokens = draw(st.integers(1, 40))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    skew = draw(st.floats(0, 2))
    scores = torch.rand(tokens, experts, generator=random)
    if draw(st.booleans()):
        scores = (scores * 4).round() / 4
    ranked = (scores + skew * torch.linspace(1, 0, experts)).argsort(descending=True, stable=True)
    ids, candidates = ranked[:, :top_k], ranked[:, top_k : top_k + 8]
    slots = draw(st.integers(1, tokens))
    replicas = torch.randint(1, 4, (experts,), generator=random)
    return Contest(
        expert_ids=ids, chosen=scores.gather(1, ids), candidates=candidates,
        candidate_scores=scores.gather(1, candidates),
        counts=torch.bincount(ids.flatten(), minlength=experts), num_replicas=replicas, slots=slots,
    )  # fmt: skip


def loads(contest, verdict):
    return torch.bincount(verdict.expert_ids[verdict.kept], minlength=contest.counts.numel())


@pytest.mark.parametrize("policy", list(OverflowPolicy))
@settings(max_examples=60, deadline=None)
@given(contest=contests())
def test_every_policy_keeps_its_promises(policy, contest):
    verdict = POLICIES[policy].decide(contest)

    overflow = int((contest.counts - contest.slots).clamp_min(0).sum())
    spilled = 0 if verdict.replica is None else int((verdict.replica > 0).sum())
    dropped = int((~verdict.kept).sum())
    assert overflow == int(verdict.rerouted.sum()) + spilled + dropped
    room = contest.num_replicas if policy is OverflowPolicy.SPILL else 1
    assert (loads(contest, verdict) <= contest.slots * room).all()
    assert all(len(set(row.tolist())) == len(row) for row in verdict.expert_ids)
    assert not (verdict.rerouted & ~verdict.kept).any()
    moved = verdict.expert_ids != contest.expert_ids
    assert torch.equal(moved, verdict.rerouted)


@pytest.mark.parametrize("policy", list(OverflowPolicy))
@settings(max_examples=15, deadline=None)
@given(contest=contests())
def test_the_same_contest_gives_the_same_verdict(policy, contest):
    first, second = POLICIES[policy].decide(contest), POLICIES[policy].decide(contest)
    assert torch.equal(first.expert_ids, second.expert_ids)
    assert torch.equal(first.kept, second.kept)


@settings(max_examples=60, deadline=None)
@given(contest=contests())
def test_drop_keeps_the_highest_scores_of_every_expert(contest):
    kept = POLICIES[OverflowPolicy.DROP].decide(contest).kept
    for expert, count in enumerate(contest.counts.tolist()):
        mine = contest.expert_ids == expert
        lost = contest.chosen[mine & ~kept]
        assert len(lost) == max(0, count - contest.slots)
        if len(lost):
            assert lost.max() <= contest.chosen[mine & kept].min()


@settings(max_examples=40, deadline=None)
@given(contest=contests())
def test_drop_by_position_keeps_the_first_tokens_of_every_expert(contest):
    kept = POLICIES[OverflowPolicy.DROP_BY_POSITION].decide(contest).kept
    for expert in range(contest.counts.numel()):
        tokens = (contest.expert_ids == expert).any(1).nonzero().flatten()
        mine = ((contest.expert_ids == expert) & kept).any(1).nonzero().flatten()
        assert torch.equal(mine, tokens[: contest.slots])


@settings(max_examples=60, deadline=None)
@given(contest=contests())
def test_next_best_drops_only_what_no_candidate_could_take(contest):
    verdict = POLICIES[OverflowPolicy.REROUTE_NEXT_BEST].decide(contest)
    room = contest.slots - loads(contest, verdict)
    for token in (~verdict.kept).any(1).nonzero().flatten().tolist():
        held = set(verdict.expert_ids[token].tolist())
        assert all(c in held or room[c] == 0 for c in contest.candidates[token].tolist())


@settings(max_examples=60, deadline=None)
@given(contest=contests())
def test_least_loaded_drops_only_when_every_free_expert_is_the_tokens_own(contest):
    verdict = POLICIES[OverflowPolicy.REROUTE_LEAST_LOADED].decide(contest)
    room = contest.slots - loads(contest, verdict)
    free = set((room > 0).nonzero().flatten().tolist())
    for token in (~verdict.kept).any(1).nonzero().flatten().tolist():
        assert free <= set(verdict.expert_ids[token].tolist())


@settings(max_examples=30, deadline=None)
@given(contest=contests())
def test_id_adjacent_moves_by_one(contest):
    verdict = POLICIES[OverflowPolicy.REROUTE_ID_ADJACENT].decide(contest)
    experts = contest.counts.numel()
    step = (verdict.expert_ids - contest.expert_ids)[verdict.rerouted] % experts
    assert set(step.tolist()) <= {1, experts - 1}


@settings(max_examples=30, deadline=None)
@given(contest=contests())
def test_spill_fills_the_first_copy_first(contest):
    verdict = POLICIES[OverflowPolicy.SPILL].decide(contest)
    assert verdict.replica is not None
    for expert in range(contest.counts.numel()):
        copies = verdict.replica[(contest.expert_ids == expert) & verdict.kept]
        used = torch.bincount(copies, minlength=4)
        assert (used <= contest.slots).all()
        assert (used[1:] == 0).all() or used[0] == contest.slots


def test_positions_break_ties_by_index():
    experts = torch.tensor([1, 0, 1, 1, 0])
    score = torch.tensor([0.5, 0.1, 0.5, 0.9, 0.1])
    assert positions(experts, score).tolist() == [1, 0, 2, 0, 1]
    assert positions(experts, None).tolist() == [0, 0, 1, 2, 1]


def test_spill_is_refused_only_without_replicas():
    check_policy(OverflowPolicy.SPILL, has_replicas=True)
    check_policy(OverflowPolicy.DROP, has_replicas=False)
    with pytest.raises(RefusedError, match="replicated experts"):
        check_policy(OverflowPolicy.SPILL, has_replicas=False)
