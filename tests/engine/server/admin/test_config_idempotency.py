"""A change sent twice acts once."""

import asyncio
from pathlib import Path

import pytest

from engine.errors import RankFailedError, RefusedError
from tests.support.echo_engine import CAUSE_BODY, echo_engine


async def test_a_replay_gets_the_first_answer_and_changes_nothing(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        config = (await engine.state()).document.config.model_dump(mode="json")
        body = {"config": config | {"chunk_size": 256}, "cause": CAUSE_BODY}
        headers = await engine.guard(Idempotency_Key="action-1", X_Fencing_Epoch="3")
        first = await engine.client.put("/admin/v1/config", json=body, headers=headers)
        await engine.put_config(chunk_size=1024)
        headers["X-Fencing-Epoch"] = "4"  # another leader resumes the same action
        again = await engine.client.put("/admin/v1/config", json=body, headers=headers)
        assert again.content == first.content
        assert again.headers["etag"] == first.headers["etag"]
        assert again.headers["idempotency-replayed"] == "true"
        assert (await engine.state()).document.config.chunk_size == 1024
    async with echo_engine(tmp_path) as engine:
        after_restart = await engine.client.put("/admin/v1/config", json=body, headers=headers)
        assert after_restart.content == first.content


async def test_a_key_with_another_body_is_422(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        body = {"reason": "maintenance"}
        await engine.mutate("POST", "freeze", body, Idempotency_Key="k")
        answer = await engine.mutate("POST", "freeze", {"reason": "x"}, Idempotency_Key="k")
        assert (answer.status_code, answer.json()["type"]) == (422, "idempotency-key-reused")
        other_route = await engine.mutate("DELETE", "freeze", Idempotency_Key="k")
        assert other_route.status_code == 422


async def test_a_change_that_failed_may_be_sent_again_under_its_key(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.core.refuse_commit = RefusedError("no memory", field="capacity_factor")
        config = (await engine.state()).document.config.model_dump(mode="json")
        body = {"config": config | {"chunk_size": 256}, "cause": CAUSE_BODY}
        refused = await engine.mutate("PUT", "config", body, Idempotency_Key="k")
        assert refused.status_code == 409
        assert (await engine.state()).document.generation == 1
        engine.core.refuse_commit = None
        assert (await engine.mutate("PUT", "config", body, Idempotency_Key="k")).status_code == 200


async def test_the_number_of_a_change_that_no_rank_took_is_not_used_again(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.core.refuse_commit = RankFailedError("rank 1 died", rank=1)
        answer = await engine.put_config(chunk_size=256)
        assert (answer.status_code, answer.json()["type"]) == (500, "rank-failed")
        engine.core.refuse_commit = None
        await engine.put_config(chunk_size=256)
        state = await engine.state()
        assert (state.document.generation, state.document.parent) == (3, 1)


@pytest.mark.parametrize("key", ["", "k" * 201])
async def test_a_key_is_needed_and_bounded(tmp_path: Path, key: str) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate("DELETE", "freeze", Idempotency_Key=key)
        assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")


async def test_one_key_sent_twice_at_once_acts_once(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        config = (await engine.state()).document.config.model_dump(mode="json")
        body = {"config": config | {"chunk_size": 256}, "cause": CAUSE_BODY}
        headers = await engine.guard()
        both = await asyncio.gather(
            *(engine.client.put("/admin/v1/config", json=body, headers=headers) for _ in "12")
        )
        assert [answer.status_code for answer in both] == [200, 200]
        assert both[0].content == both[1].content
        assert len(engine.core.plans) == 2
