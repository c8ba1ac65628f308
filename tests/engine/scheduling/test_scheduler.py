import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.scheduling.scheduler import ScheduleLimits, Scheduler
from engine.scheduling.sequence import FinishReason, Sequence, SequenceState

EOS = 256


def make_sequence(name: str, num_prompt: int = 4, max_tokens: int = 4) -> Sequence:
    return Sequence(
        request_id=name,
        token_ids=[1] * num_prompt,
        num_prompt_tokens=num_prompt,
        max_tokens=max_tokens,
        eos_token_ids=frozenset({EOS}),
    )


def run_step(scheduler: Scheduler, limits: ScheduleLimits, token: int = 7):
    step = scheduler.schedule(limits)
    drawn = {share.sequence.request_id: token for share in step if share.wants_token}
    return step, scheduler.complete(step, drawn)


def check_blocks_are_conserved(scheduler: Scheduler) -> None:
    for rank, blocks in enumerate(scheduler.blocks):
        owned = [b for s in scheduler.running if s.rank == rank for b in s.block_table]
        assert len(owned) == len(set(owned)) == blocks.num_used
        assert blocks.num_free + blocks.num_used == blocks.num_blocks


def test_decode_comes_before_prefill_in_the_budget():
    scheduler = Scheduler(num_ranks=1, kv_blocks=64, block_tokens=4)
    limits = ScheduleLimits(chunk_size=8, max_concurrency=8)
    scheduler.add(make_sequence("a", 4))
    run_step(scheduler, limits)
    scheduler.add(make_sequence("b", 30))
    step, _ = run_step(scheduler, limits)
    assert [(s.sequence.request_id, s.num_tokens, s.is_decode) for s in step] == [
        ("a", 1, True),
        ("b", 7, False),
    ]


def test_a_long_prompt_is_prefilled_in_chunks_and_draws_a_token_only_at_its_end():
    scheduler = Scheduler(num_ranks=1, kv_blocks=64, block_tokens=4)
    limits = ScheduleLimits(chunk_size=8, max_concurrency=8)
    scheduler.add(make_sequence("a", 20))
    wants = []
    for _ in range(3):
        step, _ = run_step(scheduler, limits)
        wants.append((step[0].num_tokens, step[0].wants_token))
    assert wants == [(8, False), (8, False), (4, True)]


def test_sequences_go_to_the_rank_with_the_fewest_running():
    scheduler = Scheduler(num_ranks=3, kv_blocks=64, block_tokens=4)
    for name in "abcde":
        scheduler.add(make_sequence(name))
    scheduler.schedule(ScheduleLimits(chunk_size=64, max_concurrency=8))
    assert [s.rank for s in scheduler.running] == [0, 1, 2, 0, 1]


def test_lowering_concurrency_drains_and_kills_nothing():
    scheduler = Scheduler(num_ranks=1, kv_blocks=64, block_tokens=4)
    for name in "abcd":
        scheduler.add(make_sequence(name, max_tokens=3))
    run_step(scheduler, ScheduleLimits(chunk_size=64, max_concurrency=3))
    assert len(scheduler.running) == 3
    low = ScheduleLimits(chunk_size=64, max_concurrency=1)
    run_step(scheduler, low)
    assert [s.request_id for s in scheduler.running] == ["a", "b", "c"]
    run_step(scheduler, low)
    run_step(scheduler, low)
    assert [s.request_id for s in scheduler.running] == ["d"]


def test_when_blocks_run_out_the_newest_sequence_of_the_rank_waits_and_comes_back():
    scheduler = Scheduler(num_ranks=1, kv_blocks=4, block_tokens=2)
    old, new = make_sequence("old", 3, 4), make_sequence("new", 3, 4)
    scheduler.add(old)
    scheduler.add(new)
    limits = ScheduleLimits(chunk_size=16, max_concurrency=4)
    while scheduler.has_work:
        run_step(scheduler, limits)
        check_blocks_are_conserved(scheduler)
    assert new.num_preemptions == 1
    assert old.num_preemptions == 0
    assert old.num_output_tokens == new.num_output_tokens == 4


def test_more_decodes_than_budget_take_turns():
    scheduler = Scheduler(num_ranks=1, kv_blocks=64, block_tokens=4)
    for name in "abcde":
        scheduler.add(make_sequence(name, max_tokens=9))
    run_step(scheduler, ScheduleLimits(chunk_size=64, max_concurrency=8))
    small = ScheduleLimits(chunk_size=2, max_concurrency=2)
    seen = [s.sequence.request_id for _ in range(5) for s in run_step(scheduler, small)[0]]
    assert sorted(seen) == sorted("abcde" * 2)


def test_an_end_of_text_token_stops_the_sequence_and_frees_its_blocks():
    scheduler = Scheduler(num_ranks=1, kv_blocks=8, block_tokens=4)
    sequence = make_sequence("a")
    scheduler.add(sequence)
    _, advanced = run_step(scheduler, ScheduleLimits(chunk_size=8, max_concurrency=1), token=EOS)
    assert advanced == (sequence,)
    assert sequence.finish_reason is FinishReason.STOP
    assert scheduler.blocks[0].num_free == 8
    assert not scheduler.has_work


def test_abort_frees_waiting_and_running_sequences():
    scheduler = Scheduler(num_ranks=1, kv_blocks=8, block_tokens=4)
    scheduler.add(make_sequence("a"))
    scheduler.add(make_sequence("b"))
    step = scheduler.schedule(ScheduleLimits(chunk_size=8, max_concurrency=1))
    assert scheduler.abort("a") is not None
    assert scheduler.abort("b") is not None
    assert scheduler.abort("c") is None
    assert scheduler.complete(step, {"a": 1}) == ()
    assert not scheduler.has_work
    check_blocks_are_conserved(scheduler)


def test_a_live_request_id_is_refused():
    scheduler = Scheduler(num_ranks=1, kv_blocks=8, block_tokens=4)
    scheduler.add(make_sequence("a"))
    with pytest.raises(ValueError, match="'a' is live already"):
        scheduler.add(make_sequence("a"))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_budget_is_never_exceeded_blocks_are_conserved_and_all_work_ends(data):
    num_ranks = data.draw(st.integers(1, 3))
    scheduler = Scheduler(
        num_ranks=num_ranks, kv_blocks=data.draw(st.integers(8, 20)), block_tokens=2
    )
    limit = st.builds(
        ScheduleLimits, chunk_size=st.integers(4, 24), max_concurrency=st.integers(1, 4)
    )
    sequences: list[Sequence] = []
    for number in range(data.draw(st.integers(0, 40))):
        match data.draw(st.sampled_from(["add", "step", "step", "abort"])):
            case "add":
                sequence = make_sequence(
                    str(number), data.draw(st.integers(1, 10)), data.draw(st.integers(1, 6))
                )
                sequences.append(sequence)
                scheduler.add(sequence)
            case "abort" if sequences:
                scheduler.abort(data.draw(st.sampled_from(sequences)).request_id)
            case _:
                limits = data.draw(limit)
                before = len(scheduler.running)
                step, _ = run_step(scheduler, limits)
                assert sum(share.num_tokens for share in step) <= limits.chunk_size
                assert all(share.num_tokens > 0 for share in step)
                assert len(scheduler.running) <= max(before, limits.max_concurrency)
        check_blocks_are_conserved(scheduler)
    for _ in range(2000):
        if not scheduler.has_work:
            break
        run_step(scheduler, ScheduleLimits(chunk_size=8, max_concurrency=4))
        check_blocks_are_conserved(scheduler)
    assert not scheduler.has_work
    assert all(s.state is SequenceState.FINISHED for s in sequences)
    assert all(
        s.num_output_tokens == s.max_tokens
        for s in sequences
        if s.finish_reason is FinishReason.LENGTH
    )
    assert all(blocks.num_used == 0 for blocks in scheduler.blocks)
