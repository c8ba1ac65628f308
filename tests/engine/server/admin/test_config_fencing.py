"""An epoch fences leaders off; a human is not fenced."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.echo_engine import CAUSE_BODY, EchoEngine, echo_engine


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
