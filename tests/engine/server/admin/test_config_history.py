"""Generations, and going back to one."""

from pathlib import Path

from contract.admin import ConfigHistory
from tests.support.echo_engine import CAUSE_BODY, echo_engine


async def test_history_keeps_every_generation_oldest_first(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        for size in (256, 1024, 2048):
            await engine.put_config(chunk_size=size)
        newest = ConfigHistory.model_validate_json(
            (await engine.get("config/history?limit=2")).content
        )
        assert [document.generation for document in newest.documents] == [3, 4]
        bad = await engine.get("config/history?limit=0")
        assert (bad.status_code, bad.json()["field"]) == (422, "query.limit")


async def test_rollback_mints_a_generation_with_the_old_config(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(chunk_size=256)
        answer = await engine.mutate("POST", "config/rollback", {"to": 1, "cause": CAUSE_BODY})
        assert answer.json()["observed_generation"] == 3
        state = await engine.state()
        assert (state.document.config.chunk_size, state.document.parent) == (512, 2)
        unknown = await engine.mutate("POST", "config/rollback", {"to": 99, "cause": CAUSE_BODY})
        assert (unknown.status_code, unknown.json()["value"]) == (404, 99)
        huge = await engine.mutate("POST", "config/rollback", {"to": 2**64, "cause": CAUSE_BODY})
        assert (huge.status_code, huge.json()["field"]) == (422, "to")


async def test_config_rollback_brings_a_moved_bias_back(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(bias_update="on")
        engine.core.move_bias(0.5)
        await engine.mutate("POST", "config/rollback", {"to": 1, "cause": CAUSE_BODY})
        assert engine.core.live.reload_bias
        biases = (await engine.get("router-bias")).json()
        assert biases["live_hash"] == biases["configured_hash"]


async def test_an_unrelated_change_leaves_a_moving_bias_alone(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(bias_update="on")
        engine.core.move_bias(0.5)
        await engine.put_config(chunk_size=256)
        assert not engine.core.live.reload_bias
        await engine.put_config(bias_update="off")
        assert engine.core.live.reload_bias
