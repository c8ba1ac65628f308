"""Who may read and change a config, and a frozen engine."""

from pathlib import Path

import pytest

from engine.server.tokens import Role
from tests.support.echo_engine import bearer, echo_engine


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
