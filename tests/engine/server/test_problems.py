from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.server.problems import shown
from engine.server.tokens import Role
from tests.support.echo_engine import bearer, echo_engine
from tests.support.golden import golden


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("POST", "/admin/v1/config", 405), ("GET", "/docs", 404),
     ("GET", "/openapi.json", 404)],
)  # fmt: skip
async def test_every_error_is_a_problem(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.client.request(method, path, headers=bearer(Role.ADMIN))
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status


async def test_an_unforeseen_error_says_nothing_of_its_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with echo_engine(tmp_path) as engine:

        async def broken() -> None:
            raise ValueError("secret")

        monkeypatch.setattr(engine.core, "live_bias", broken)
        answer = await engine.get("router-bias")
        assert (answer.status_code, answer.json()["type"]) == (500, "internal")
        assert "secret" not in answer.text


def test_the_golden_problem_can_be_said_by_an_engine() -> None:
    agreed = golden("problem")
    error = EngineError("detail", field="f", value=1, bound=2, current=3)
    assert error.problem().model_dump().keys() == agreed.keys()


def test_a_long_value_is_cut() -> None:
    assert shown("x" * 1000) == "x" * 200 + "…"
    assert shown([1] * 1000) == repr([1] * 1000)[:200] + "…"
    assert shown(3.5) == 3.5
