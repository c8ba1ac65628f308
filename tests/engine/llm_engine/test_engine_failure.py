"""Ranks that die, stop, or never come up; engines that end."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine.errors import CheckpointError, NotReadyError, RankFailedError
from tests.support.engines import TinyEngine
from tests.support.tiny_checkpoint import write_tiny_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("sent", "busy", "match"),
    [
        (signal.SIGKILL, False, "rank 1 was killed by signal 9"),
        (signal.SIGKILL, True, "rank 1 was killed by signal 9"),
        (signal.SIGSTOP, True, "rank 1 has not answered for"),
    ],
    ids=["killed-idle", "killed-busy", "stopped-busy"],
)
async def test_a_failed_rank_is_named_and_nothing_hangs(checkpoint, sent, busy, match):
    engine = TinyEngine(checkpoint, watchdog_seconds=1.5)
    await engine.start()
    ranks = engine.process_ids
    running = asyncio.create_task(engine.complete("r", max_tokens=200)) if busy else None
    await asyncio.sleep(0.1)
    os.kill(ranks[1], sent)
    error = await asyncio.wait_for(engine.failed, 10)
    assert isinstance(error, RankFailedError)
    assert error.rank == 1
    with pytest.raises(RankFailedError, match=match):
        raise error
    if running is not None:
        with pytest.raises(RankFailedError, match="rank 1"):
            await running
    with pytest.raises(NotReadyError, match=match):
        await engine.complete("late")
    with pytest.raises(NotReadyError, match=match):
        await engine.commit(engine.plan(9))
    await engine.stop()
    assert not any(is_running(pid) for pid in ranks)


async def test_a_clean_stop_ends_requests_and_leaves_no_process(checkpoint):
    engine = TinyEngine(checkpoint)
    await engine.start()
    ranks = engine.process_ids
    running = asyncio.create_task(engine.complete("r", max_tokens=200))
    await asyncio.sleep(0.1)
    await engine.stop()
    with pytest.raises(NotReadyError, match="the engine has stopped"):
        await running
    await engine.stop()
    assert not engine.failed.done()
    assert not any(is_running(pid) for pid in ranks)


async def test_a_checkpoint_that_is_not_there_fails_the_start(tmp_path):
    engine = TinyEngine(tmp_path / "absent", ranks=1)
    with pytest.raises(CheckpointError, match="absent"):
        await engine.start()
    assert engine.process_ids == ()
    await engine.stop()


async def test_an_engine_can_be_stopped_while_it_starts(checkpoint):
    engine = TinyEngine(checkpoint, ranks=1)
    starting = asyncio.create_task(engine.start())
    await engine.until(lambda: engine.process_ids)
    ranks = engine.process_ids
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not any(is_running(pid) for pid in ranks)


async def test_nothing_is_served_before_the_start(checkpoint):
    engine = TinyEngine(checkpoint)
    with pytest.raises(NotReadyError, match="has not been started"):
        await engine.complete("early")
    await engine.stop()


def test_ranks_end_when_the_engine_is_killed(checkpoint, tmp_path):
    program = textwrap.dedent(
        f"""
        import asyncio
        from pathlib import Path
        from tests.support.engines import TinyEngine

        async def main():
            engine = TinyEngine(Path({str(checkpoint)!r}))
            await engine.start()
            print(*engine.process_ids, flush=True)
            await asyncio.sleep(60)

        if __name__ == "__main__":
            asyncio.run(main())
        """
    )
    script = tmp_path / "engine_main.py"
    script.write_text(program)
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        ranks = [int(pid) for pid in process.stdout.readline().split()]
        assert len(ranks) == 2
        process.kill()
        process.wait()
    for _ in range(500):
        if not any(is_running(pid) for pid in ranks):
            break
        os.sched_yield()
        signal.sigtimedwait([], 0.02)
    assert not any(is_running(pid) for pid in ranks)
