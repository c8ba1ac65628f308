import asyncio
from pathlib import Path
from typing import Any

import pytest

from contract.admin import ConfigState, MutationResult
from contract.headers import config_etag
from contract.runtime_config import KNOBS
from tests.support.echo_engine import CAUSE_BODY, echo_engine
from tests.support.golden import golden


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


async def test_concurrent_puts_on_one_etag_have_one_winner(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answers = await asyncio.gather(
            *(engine.put_config(chunk_size=size) for size in (128, 256, 1024, 2048))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
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
