import numpy as np
import pytest

from contract.frame import OLDER, SchedulerGauges
from contract.frame_codec import decode, encode
from contract.runtime_config import RuntimeConfig
from engine.telemetry.counts import RankCounts
from engine.telemetry.frame_builder import EngineIdentity, FrameBuilder, FrameStatus
from engine.telemetry.generation_slots import choose_slots, gather
from engine.telemetry.request_metrics import RequestMetrics

IDENTITY = EngineIdentity(
    engine_id="e0", group="g0", model="m", boot_id="b0", layers=2, experts=4, top_k=2, ranks=2
)


def status(generation: int = 1) -> FrameStatus:
    return FrameStatus(
        config_generation=generation, config=RuntimeConfig(), bias_version=3,
        gauges=SchedulerGauges(running=2, queued=1),
    )  # fmt: skip


def rank_counts(rank: int, waits: float = 0.001, **named) -> RankCounts:
    arrays = {"assignments": np.full((2, 2, 4), rank + 1), "a2a_bytes": np.array([10, 20])}
    if rank == 0:
        arrays["overflow"] = np.array([3, 4])
    times = np.full((1, 2, 2, 2), waits, dtype=np.float32)
    return RankCounts(
        rank=rank, arrays=arrays, steps=1, step_first=9, step_last=9, step_ids=np.array([9]),
        step_phases=np.array([1]), exchange_seconds=times, **named,
    )  # fmt: skip


def build(builder: FrameBuilder, ranks, requests: RequestMetrics, current: int = 1):
    return builder.build(
        ranks, requests.drain(), status(current), started_unix_seconds=1.0, interval_seconds=1.0
    )


def test_ranks_are_summed_and_the_frame_survives_the_codec():
    requests = RequestMetrics()
    requests.observe_ttft(1, 0.2)
    requests.observe_tpot(1, 0.051)
    requests.observe_request(0.5)
    requests.count("finished")
    requests.observe_step(
        step=9, generation=1, seconds=0.02, prefill_tokens=0, decode_tokens=4,
        sequence_ids=("a", "b"),
    )  # fmt: skip
    frame = build(FrameBuilder(IDENTITY), [rank_counts(1), rank_counts(0)], requests)
    again = decode(encode(frame))
    assert again.header == frame.header
    assert (again.arrays["assignments"] == 3).all()
    assert again.arrays["overflow"].tolist() == [3, 4]
    assert again.arrays["a2a_bytes"].tolist() == [20, 40]
    assert again.header.sequences == 2
    assert again.header.tokens == (0, 4)
    assert again.header.requests.tpot_measured == 1
    assert again.header.histogram_sums["ttft"] == pytest.approx(0.2)
    ttft_cell = again.arrays["ttft"][0].nonzero()[0]
    assert ttft_cell.tolist() == [9], "0.2 s is a bound, so it counts in its own cell"


def test_the_slowest_rank_decides_the_all_to_all_of_a_step():
    frame = build(
        FrameBuilder(IDENTITY), [rank_counts(0, 0.001), rank_counts(1, 0.1)], RequestMetrics()
    )
    bounds_above = frame.arrays["a2a_layer"][0, 1, 0].nonzero()[0]
    assert bounds_above.tolist() == [11]
    assert frame.arrays["a2a_layer"].sum() == 2 * 2 * 2
    assert frame.arrays["a2a_phase"][:, :, 1].sum() == 2 * 2 * 2
    assert frame.arrays["a2a_rank"].sum() == 2 * 2 * 2 * 2
    assert frame.arrays["a2a_rank_wait_us"].tolist() == pytest.approx([4000, 400000], abs=1)
    assert frame.header.histogram_sums["a2a.dispatch.decode.wait"] == pytest.approx(0.2)


def test_sequences_number_the_frames_of_a_boot():
    builder = FrameBuilder(IDENTITY)
    requests = RequestMetrics()
    assert [build(builder, [], requests).header.sequence for _ in range(3)] == [0, 1, 2]


def test_generations_beyond_four_are_older():
    requests = RequestMetrics()
    for generation in range(1, 8):
        requests.observe_ttft(generation, 0.01)
    head = rank_counts(0, generation_assignments={7: 70}, generation_overflow={7: 7})
    frame = build(FrameBuilder(IDENTITY), [head], requests, current=7)
    assert frame.header.generations == (7, 6, 5, 4, OLDER)
    assert frame.arrays["ttft"].sum(axis=1).tolist() == [1, 1, 1, 1, 3]
    assert frame.arrays["generation_overflow"].tolist() == [7, 0, 0, 0, 0]


def test_a_frame_without_recording_still_tells_of_requests():
    requests = RequestMetrics()
    requests.count("rejected")
    frame = build(FrameBuilder(IDENTITY), [], requests)
    assert "assignments" not in frame.arrays
    assert frame.header.requests.rejected == 1
    decode(encode(frame))


def test_slots_are_the_newest_first():
    assert choose_slots({1, 2}, 3) == (3, 2, 1)
    assert choose_slots(range(9), 2) == (8, 7, 6, 5, OLDER)


def test_gather_refuses_a_generation_without_a_slot():
    with pytest.raises(KeyError):
        gather({1: np.zeros(2, dtype=np.int64)}, (2,), (2,))
