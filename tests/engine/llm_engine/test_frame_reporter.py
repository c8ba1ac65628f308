import numpy as np

from contract.runtime_config import RuntimeConfig
from engine.llm_engine.frame_reporter import FrameReporter, hash_of
from engine.telemetry.counts import RankCounts
from engine.telemetry.frame_builder import EngineIdentity, FrameBuilder, FrameStatus
from engine.telemetry.request_metrics import RequestMetrics
from engine.worker.messages import Drained

STATUS = FrameStatus(config_generation=3, config=RuntimeConfig())
IDENTITY = EngineIdentity("e", "g", "m", "boot", layers=1, experts=4, top_k=2, ranks=2)
BIAS = np.zeros((1, 4), np.float32)


class Clock:
    def __init__(self) -> None:
        self.unix = 1000.0

    def __call__(self) -> float:
        return self.unix


def make_reporter(frames: list, clock: Clock | None = None) -> FrameReporter:
    return FrameReporter(
        num_ranks=2, builder=FrameBuilder(IDENTITY), metrics=RequestMetrics(), frame_seconds=1.0,
        period_seconds=3.0, sinks=(frames.append,), unix_seconds=clock or Clock(), now=0.0,
        free_bytes=900,
    )  # fmt: skip


def drain(reporter: FrameReporter, frame: int, *, bias=BIAS) -> None:
    for rank in (0, 1):
        counts = RankCounts(rank, {"assignments": np.full((2, 1, 4), rank + 1)})
        reporter.drained(
            rank, Drained(frame, counts, bias if rank == 0 else None, free_bytes=500 + rank)
        )


def test_a_frame_leaves_when_every_rank_has_drained():
    frames: list = []
    reporter = make_reporter(frames)
    assert not reporter.due(0.9)
    assert reporter.seconds_left(0.25) == 0.75
    assert reporter.due(1.0)
    message = reporter.begin(1.0, STATUS, None)
    assert not reporter.due(2.5), "one frame at a time"
    drain(reporter, message.frame)
    assert reporter.due(2.5)
    reporter.close()
    (frame,) = frames
    assert frame.arrays["assignments"].sum() == 24
    assert frame.header.interval_seconds == 1.0
    assert reporter.free_bytes == 500


def test_the_live_bias_is_hashed_and_its_distance_told():
    frames: list = []
    reporter = make_reporter(frames)
    moved = BIAS + np.float32(0.25)
    drain(reporter, reporter.begin(1.0, STATUS, BIAS).frame, bias=moved)
    reporter.close()
    assert frames[0].header.live_bias == hash_of(moved)
    assert frames[0].header.bias_distance == 0.25


def test_bucket_arrays_come_once_a_period_and_intervals_join():
    frames: list = []
    clock = Clock()
    reporter = make_reporter(frames, clock)
    periods = []
    for second in (1.0, 2.0, 3.0, 4.25):
        clock.unix = 1000.0 + second
        message = reporter.begin(second, STATUS, None)
        periods.append(message.period)
        drain(reporter, message.frame)
    reporter.close()
    assert periods == [False, False, True, False]
    starts = [frame.header.started_unix_seconds for frame in frames]
    lengths = [frame.header.interval_seconds for frame in frames]
    assert starts == [1000.0, 1001.0, 1002.0, 1003.0]
    assert lengths == [1.0, 1.0, 1.0, 1.25]


def test_an_answer_to_another_frame_is_ignored():
    frames: list = []
    reporter = make_reporter(frames)
    message = reporter.begin(1.0, STATUS, None)
    drain(reporter, message.frame + 1)
    reporter.close()
    assert frames == []


def test_a_frame_that_cannot_be_built_is_logged_and_the_next_one_leaves(caplog):
    frames: list = []
    reporter = make_reporter(frames)
    message = reporter.begin(1.0, STATUS, None)
    for rank in (0, 1):
        counts = RankCounts(rank, {"unknown": np.ones(1, np.int64)})
        reporter.drained(rank, Drained(message.frame, counts, None, free_bytes=1))
    drain(reporter, reporter.begin(2.0, STATUS, None).frame)
    reporter.close()
    assert "could not be built" in caplog.text
    assert len(frames) == 1
