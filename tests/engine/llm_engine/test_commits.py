from concurrent.futures import Future

import pytest

from contract.runtime_config import RuntimeConfig
from engine.errors import NotReadyError, RefusedError
from engine.llm_engine.commits import Commits
from engine.llm_engine.exchange import CommitReceipt, LivePlan
from engine.worker.messages import Discard, Prepare, Prepared


def make_plan(generation: int) -> LivePlan:
    return LivePlan(generation=generation, config=RuntimeConfig(), bias=None)


def make_commits() -> Commits:
    return Commits(num_ranks=2, first=make_plan(0))


def next_prepare(commits: Commits) -> Prepare:
    prepare = commits.next_prepare()
    assert prepare is not None
    return prepare


def test_the_next_step_switches_only_when_every_rank_is_prepared():
    commits = make_commits()
    future: Future[CommitReceipt] = Future()
    commits.add(make_plan(5), future)
    prepare = next_prepare(commits)
    assert prepare.generation == 5
    assert commits.prepared(0, Prepared(prepare.edition)) is None
    assert not commits.is_ready
    assert commits.for_next_step().plan.generation == 0
    commits.prepared(1, Prepared(prepare.edition))
    assert commits.is_ready
    edition = commits.for_next_step()
    assert edition.edition == prepare.edition
    commits.stepped(17, edition, {0: 5, 1: 5})
    assert commits.live is edition
    assert not commits.is_ready
    receipt = future.result(0)
    assert receipt.effective_at_step == 17
    assert [(ack.rank, ack.generation, ack.step) for ack in receipt.ranks] == [
        (0, 5, 17),
        (1, 5, 17),
    ]
    commits.stepped(18, commits.for_next_step(), {0: 5, 1: 5})
    assert commits.live is edition


def test_one_refusal_fails_the_commit_and_changes_nothing():
    commits = make_commits()
    future: Future[CommitReceipt] = Future()
    commits.add(make_plan(5), future)
    edition = next_prepare(commits).edition
    assert commits.prepared(1, Prepared(edition, error="no memory")) == Discard(edition)
    assert commits.prepared(0, Prepared(edition)) is None
    with pytest.raises(RefusedError, match="rank 1 cannot prepare generation 5: no memory"):
        future.result(0)
    assert not commits.is_ready
    assert commits.live.plan.generation == 0


def test_commits_wait_their_turn():
    commits = make_commits()
    first: Future[CommitReceipt] = Future()
    second: Future[CommitReceipt] = Future()
    commits.add(make_plan(1), first)
    commits.add(make_plan(2), second)
    edition = next_prepare(commits).edition
    assert commits.next_prepare() is None
    for rank in (0, 1):
        commits.prepared(rank, Prepared(edition))
    assert commits.next_prepare() is None
    commits.stepped(3, commits.for_next_step(), {0: 1, 1: 1})
    assert first.done()
    assert next_prepare(commits).generation == 2


def test_a_failing_engine_answers_every_commit():
    commits = make_commits()
    futures: list[Future[CommitReceipt]] = [Future(), Future()]
    for future in futures:
        commits.add(make_plan(1), future)
    commits.next_prepare()
    commits.fail(NotReadyError("rank 1 died"))
    for future in futures:
        with pytest.raises(NotReadyError, match="rank 1 died"):
            future.result(0)
