import asyncio
from pathlib import Path
from typing import Any

import pytest

from contract.admin import ConfigHistory, ConfigState, MutationResult
from contract.headers import config_etag
from contract.runtime_config import KNOBS
from engine.errors import RankFailedError, RefusedError
from engine.server.tokens import Role
from tests.support.echo_engine import CAUSE, EchoEngine, bearer, echo_engine
from tests.support.golden import golden

CAUSE_BODY = CAUSE.model_dump(mode="json")


async def test_the_first_start_commits_generation_one(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.get("config")
        state = ConfigState.model_validate_json(answer.content)
        assert state.document.generation == 1
        assert state.document.parent is None
        assert answer.headers["etag"] == config_etag(1, state.document.config.content_hash())
        assert engine.core.live.config == state.document.config


async def test_the_state_has_the_golden_shape(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(capacity_factor=1.5, lease={"capacity_factor": 600})
        body = (await engine.get("config")).json()
        agreed = golden("config_state")
        assert body.keys() == agreed.keys()
        assert body["document"].keys() == agreed["document"].keys()
        assert body["leases"][0].keys() == agreed["leases"][0].keys()


async def test_a_put_is_live_on_every_rank_when_it_is_answered(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.put_config(chunk_size=256, capacity_factor=1.5)
        result = MutationResult.model_validate_json(answer.content)
        assert result.observed_generation == 2
        assert [ack.generation for ack in result.ranks] == [2, 2]
        assert result.effective_at_step == engine.core.step
        assert engine.core.live.config.capacity_factor == "1.5"
        assert not engine.core.live.reload_bias
        state = await engine.state()
        assert answer.headers["etag"] == state.etag == result.etag
        assert state.document.parent == 1


async def test_a_put_of_the_same_config_mints_no_generation(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        result = MutationResult.model_validate_json((await engine.put_config()).content)
        assert result.observed_generation == 1
        assert len(engine.core.plans) == 1


@pytest.mark.parametrize(
    ("knobs", "field", "value"),
    [
        ({"capacity_factor": 1.3}, "config.capacity_factor", 1.3),
        ({"chunk_size": 100}, "config.chunk_size", 100),
        ({"max_concurrency": 0}, "config.max_concurrency", 0),
        ({"cap_min": 99999}, "config.cap_min", 99999),
        ({"overflow_policy": "steal"}, "config.overflow_policy", "steal"),
        ({"capacty_factor": 1.5}, "config.capacty_factor", 1.5),
        ({"router_bias": "zz"}, "config.router_bias", "zz"),
    ],
)
async def test_a_config_out_of_bounds_names_field_value_and_bound(
    tmp_path: Path, knobs: dict[str, Any], field: str, value: object
) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.put_config(**knobs)
        problem = answer.json()
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert (problem["field"], problem["value"]) == (field, value)
        assert problem["bound"]
        assert len(engine.core.plans) == 1
        assert (await engine.state()).document.generation == 1


async def test_an_unknown_knob_lists_the_known_ones(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        problem = (await engine.put_config(capacty_factor=1.5)).json()
        assert tuple(problem["bound"]) == KNOBS


@pytest.mark.parametrize(
    ("knobs", "status", "kind"),
    [
        ({"router_bias": "0" * 64}, 404, "not-found"),
        ({"placement": "elsewhere"}, 404, "not-found"),
        ({"router_bias": None}, 422, "bad-request"),
        ({"dispatch_dtype": "fp8_e4m3"}, 409, "refused"),
    ],
)
async def test_what_this_engine_cannot_run_is_refused_whole(
    tmp_path: Path, knobs: dict[str, Any], status: int, kind: str
) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.put_config(chunk_size=256, **knobs)
        assert (answer.status_code, answer.json()["type"]) == (status, kind)
        assert answer.json()["field"]
        assert (await engine.state()).document.config.chunk_size == 512


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"config": 3}', b"\xff\xfe", b"[" * 10000])
async def test_a_body_that_is_no_config_is_refused(tmp_path: Path, body: bytes) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.client.put(
            "/admin/v1/config", content=body, headers=await engine.guard()
        )
        assert answer.status_code == 422
        assert answer.json()["field"]


async def test_no_if_match_is_428(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate("POST", "config/rollback", {"to": 1, "cause": CAUSE_BODY},
                                     If_Match="")  # fmt: skip
        assert (answer.status_code, answer.json()["type"]) == (428, "precondition-required")
        assert answer.json()["field"] == "If-Match"


async def test_a_stale_if_match_is_412_with_the_present_etag(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        stale = (await engine.state()).etag
        await engine.put_config(chunk_size=256)
        answer = await engine.mutate(
            "POST", "config/rollback", {"to": 1, "cause": CAUSE_BODY}, If_Match=stale
        )
        assert answer.status_code == 412
        assert answer.json()["current"] == (await engine.state()).etag
        assert answer.json()["value"] == stale


async def test_any_generation_is_not_a_precondition_for_a_config(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        body = {"to": 1, "cause": CAUSE_BODY}
        assert (await engine.mutate("POST", "config/rollback", body, If_Match="*")
                ).status_code == 412  # fmt: skip


async def put_at_epoch(engine: EchoEngine, epoch: str, chunk: int = 256) -> Any:
    config = (await engine.state()).document.config.model_dump(mode="json")
    body = {"config": config | {"chunk_size": chunk}, "cause": CAUSE_BODY}
    return await engine.mutate("PUT", "config", body, X_Fencing_Epoch=epoch)


async def test_a_lower_epoch_is_409_with_the_higher_one(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        assert (await put_at_epoch(engine, "7")).status_code == 200
        answer = await put_at_epoch(engine, "6", chunk=128)
        assert (answer.status_code, answer.json()["current"]) == (409, 7)
        assert (await engine.state()).document.config.chunk_size == 256
        assert engine.core.noted == (7, False)


async def test_a_human_is_not_fenced(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await put_at_epoch(engine, "7")
        assert (await put_at_epoch(engine, "0", chunk=128)).status_code == 200
        assert (await engine.state()).epoch_seen == 7


async def test_the_epoch_outlives_the_process_even_of_a_refused_change(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate(
            "POST", "config/rollback", {"to": 1, "cause": CAUSE_BODY},
            If_Match='"0-stale"', X_Fencing_Epoch="9",
        )  # fmt: skip
        assert answer.status_code == 412
    async with echo_engine(tmp_path) as engine:
        assert (await engine.state()).epoch_seen == 9
        assert (await put_at_epoch(engine, "8")).status_code == 409


@pytest.mark.parametrize("epoch", ["", "-1", "1.5", "abc", "9" * 30, "²"])
async def test_an_epoch_that_is_no_number_is_refused(tmp_path: Path, epoch: str) -> None:
    async with echo_engine(tmp_path) as engine:
        headers = await engine.guard()
        headers["X-Fencing-Epoch"] = epoch
        answer = await engine.client.delete(
            "/admin/v1/freeze", headers=[(k.encode(), v.encode()) for k, v in headers.items()]
        )
        assert (answer.status_code, answer.json()["field"]) == (422, "X-Fencing-Epoch")


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


async def test_concurrent_puts_on_one_etag_have_one_winner(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answers = await asyncio.gather(
            *(engine.put_config(chunk_size=size) for size in (128, 256, 1024, 2048))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
        assert len(engine.core.plans) == 2


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


async def test_a_dry_run_checks_everything_and_writes_nothing(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        config = (await engine.state()).document.config.model_dump(mode="json")
        body = {"config": config | {"chunk_size": 256}, "cause": CAUSE_BODY}
        path = "config?dry_run=true"
        answer = await engine.mutate("PUT", path, body, X_Fencing_Epoch="5", Idempotency_Key="k")
        result = MutationResult.model_validate_json(answer.content)
        assert (result.dry_run, result.observed_generation) == (True, 1)
        assert result.effective_at_step is None
        state = await engine.state()
        assert (state.document.generation, state.epoch_seen) == (1, 0)
        assert len(engine.core.plans) == 1
        bad = body | {"config": config | {"dispatch_dtype": "fp8_e4m3"}}
        assert (await engine.mutate("PUT", path, bad)).status_code == 409
        assert (await engine.mutate("PUT", path, body, If_Match='"9-x"')).status_code == 412
        assert (await engine.mutate("PUT", "config", body, Idempotency_Key="k")).status_code == 200


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


async def test_a_frozen_engine_refuses_all_but_an_unfreeze(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        freeze = {"reason": "incident 12", "actor": "ann"}
        assert (await engine.mutate("POST", "freeze", freeze, If_Match="*")).status_code == 200
        assert engine.core.noted == (0, True)
        answer = await engine.put_config(chunk_size=256)
        assert (answer.status_code, answer.json()["type"]) == (423, "frozen")
        assert "incident 12" in answer.json()["detail"]
        assert (await engine.mutate("POST", "router-bias/mark-good", {})).status_code == 423
    async with echo_engine(tmp_path) as engine:
        state = await engine.state()
        assert (state.frozen, state.freeze_reason) == (True, "incident 12")
        assert (await engine.mutate("DELETE", "freeze")).status_code == 200
        assert (await engine.put_config(chunk_size=256)).status_code == 200


async def test_a_freeze_needs_a_reason(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate("POST", "freeze", {"reason": ""})
        assert (answer.status_code, answer.json()["field"]) == (422, "reason")


@pytest.mark.parametrize(
    ("role", "read", "change"),
    [(Role.INFERENCE, 403, 403), (Role.VIEWER, 200, 403), (Role.OPERATOR, 200, 200),
     (Role.ADMIN, 200, 200)],
)  # fmt: skip
async def test_who_may_read_and_who_may_change(
    tmp_path: Path, role: Role, read: int, change: int
) -> None:
    async with echo_engine(tmp_path) as engine:
        assert (await engine.get("config", role)).status_code == read
        headers = await engine.guard() | bearer(role)
        answer = await engine.client.request("DELETE", "/admin/v1/freeze", headers=headers)
        assert answer.status_code == change
        if change == 403:
            assert answer.json()["bound"] == "operator"


@pytest.mark.parametrize("header", ["", "Bearer nope", "Basic dG9rZW4=", "Bearer", "Bearer é"])
async def test_without_a_known_token_nothing_is_said(tmp_path: Path, header: str) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.client.get(
            "/admin/v1/config", headers=[(b"Authorization", header.encode())] if header else []
        )
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "generation" not in answer.text
