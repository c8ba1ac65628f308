from pathlib import Path

from contract.admin import CauseKind
from engine.errors import RefusedError
from engine.server.governor import LEASE_RETRY_SECONDS
from tests.support.echo_engine import ManualClock, echo_engine


async def test_a_lease_ends_by_itself_in_a_generation_of_its_own(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(lease={"capacity_factor": 60}, capacity_factor=2)
        await engine.put_config(chunk_size=256)
        engine.clock.advance(59.9)
        assert await engine.governor.expire_leases() == 0
        engine.clock.advance(0.1)
        assert await engine.governor.expire_leases() == 1
        state = await engine.state()
        assert state.document.config.capacity_factor == "1.25"
        assert state.document.config.chunk_size == 256
        assert state.document.cause.kind is CauseKind.LEASE
        assert state.document.cause.id == "capacity_factor"
        assert state.leases == ()
        assert engine.core.live.config == state.document.config
        assert await engine.governor.expire_leases() == 0


async def test_two_leases_end_in_two_generations(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(
            lease={"capacity_factor": 60, "chunk_size": 60}, capacity_factor=2, chunk_size=256
        )
        engine.clock.advance(60)
        assert await engine.governor.expire_leases() == 2
        assert (await engine.state()).document.generation == 4


async def test_a_knob_that_someone_else_has_set_stays(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(lease={"chunk_size": 60}, chunk_size=256)
        await engine.put_config(chunk_size=1024)
        engine.clock.advance(100)
        assert await engine.governor.expire_leases() == 0
        assert (await engine.state()).document.config.chunk_size == 1024


async def test_renewal_mints_no_generation(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(lease={"chunk_size": 60}, chunk_size=256)
        engine.clock.advance(50)
        answer = (await engine.put_config(lease={"chunk_size": 60})).json()
        assert (answer["renewed"], answer["observed_generation"]) == (True, 2)
        engine.clock.advance(50)
        assert await engine.governor.expire_leases() == 0
        (lease,) = (await engine.state()).leases
        assert lease.expires_in_seconds == 10
        assert lease.restore == 512


async def test_freeze_pauses_expiry(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(lease={"chunk_size": 60}, chunk_size=256)
        engine.clock.advance(40)
        await engine.mutate("POST", "freeze", {"reason": "hold"})
        engine.clock.advance(1000)
        assert await engine.governor.expire_leases() == 0
        assert (await engine.state()).leases[0].expires_in_seconds == 20
        await engine.mutate("DELETE", "freeze")
        engine.clock.advance(19)
        assert await engine.governor.expire_leases() == 0
        engine.clock.advance(1)
        assert await engine.governor.expire_leases() == 1


async def test_a_lease_starts_over_after_a_restart(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(lease={"chunk_size": 60}, chunk_size=256)
        engine.clock.advance(59)
    async with echo_engine(tmp_path, clock=ManualClock()) as engine:
        assert engine.core.live.config.chunk_size == 256
        engine.clock.advance(59)
        assert await engine.governor.expire_leases() == 0
        engine.clock.advance(1)
        assert await engine.governor.expire_leases() == 1
        assert (await engine.state()).document.config.chunk_size == 512


async def test_a_freeze_that_outlives_the_process_still_pauses(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(lease={"chunk_size": 60}, chunk_size=256)
        await engine.mutate("POST", "freeze", {"reason": "hold"})
    async with echo_engine(tmp_path) as engine:
        engine.clock.advance(1000)
        assert await engine.governor.expire_leases() == 0
        assert (await engine.state()).leases[0].expires_in_seconds == 60


async def test_a_restore_that_is_refused_is_tried_again(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(lease={"chunk_size": 60}, chunk_size=256)
        engine.core.refuse_commit = RefusedError("not now", field="chunk_size")
        engine.clock.advance(60)
        assert await engine.governor.expire_leases() == 0
        engine.core.refuse_commit = None
        assert await engine.governor.expire_leases() == 0
        engine.clock.advance(LEASE_RETRY_SECONDS)
        assert await engine.governor.expire_leases() == 1


async def test_a_restore_that_would_break_another_knob_waits(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(chunk_size=128)
        await engine.put_config(lease={"chunk_size": 60}, chunk_size=1024)
        await engine.put_config(max_concurrency=512)
        engine.clock.advance(60)
        assert await engine.governor.expire_leases() == 0
        assert (await engine.state()).document.config.chunk_size == 1024
        await engine.put_config(max_concurrency=64)
        engine.clock.advance(LEASE_RETRY_SECONDS)
        assert await engine.governor.expire_leases() == 1
        assert (await engine.state()).document.config.chunk_size == 128


async def test_a_lease_of_more_than_an_hour_is_refused(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.put_config(lease={"chunk_size": 3601}, chunk_size=256)
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (422, "lease_seconds.chunk_size")
        assert problem["bound"] == "<= 3600.0"
