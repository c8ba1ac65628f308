"""A process that dies between any two writes comes back with all of a change, or none of it."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.admin import BiasMarkGood, BiasOrigin
from engine.errors import CorruptSnapshotError
from engine.server.bias_file import content_hash
from engine.server.bias_store import BiasStore
from engine.server.database import Database
from engine.server.durable import write_file
from tests.support.echo_core import EchoCore, checkpoint_bias
from tests.support.echo_engine import CAUSE_BODY, EchoEngine, echo_engine


class DiedError(Exception):
    """The process is gone: nothing after this point happens."""


class DyingDatabase(Database):
    """Dies at a numbered point: each transaction has one before it, one inside, one after."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.points_left: int | None = None

    def point(self) -> None:
        if self.points_left is None:
            return
        if self.points_left == 0:
            raise DiedError
        self.points_left -= 1

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        self.point()
        with super().transaction() as connection:
            yield connection
            self.point()
        self.point()


@pytest.mark.parametrize("points", range(12))
async def test_a_config_change_is_whole_or_absent(tmp_path: Path, points: int) -> None:
    database = DyingDatabase(tmp_path / "engine.db")
    async with echo_engine(tmp_path, database=database) as engine:
        before = await engine.state()
        config = before.document.config.model_dump(mode="json")
        body = {
            "config": config | {"capacity_factor": "2", "chunk_size": 256}, "cause": CAUSE_BODY,
            "lease_seconds": {"capacity_factor": 60},
        }  # fmt: skip
        headers = await engine.guard(X_Fencing_Epoch="5", Idempotency_Key="action-1")
        database.points_left = points
        answer = await engine.client.put("/admin/v1/config", json=body, headers=headers)
        answered = answer.status_code == 200
    async with echo_engine(tmp_path) as engine:
        state = await engine.state()
        assert engine.core.live.config == state.document.config
        if state.document.generation == before.document.generation:
            assert not answered
            assert state.document == before.document
            assert state.leases == ()
            again = await engine.client.put(
                "/admin/v1/config", json=body, headers=headers | {"X-Fencing-Epoch": "6"}
            )
            assert again.status_code == 200
            assert again.json()["observed_generation"] >= 2
        else:
            assert state.document.config.chunk_size == 256
            assert [lease.knob for lease in state.leases] == ["capacity_factor"]
            assert state.epoch_seen == 5
            again = await engine.client.put("/admin/v1/config", json=body, headers=headers)
            assert again.headers["idempotency-replayed"] == "true"
            if answered:
                assert again.content == answer.content
        assert (await engine.state()).document.config.capacity_factor == "2"


async def layered_rollback(engine: EchoEngine) -> int:
    engine.core.move_bias(0.5)
    body = {
        "bias_hash": content_hash(checkpoint_bias()), "layers": [1], "cause": CAUSE_BODY
    }  # fmt: skip
    return (await engine.mutate("POST", "router-bias/rollback", body)).status_code


@pytest.mark.parametrize("points", range(0, 18, 2))
async def test_a_bias_rollback_is_whole_or_absent(tmp_path: Path, points: int) -> None:
    database = DyingDatabase(tmp_path / "engine.db")
    async with echo_engine(tmp_path, database=database) as engine:
        await engine.put_config(bias_update="on")
        before = await engine.state()
        database.points_left = points
        answered = await layered_rollback(engine) == 200
    async with echo_engine(tmp_path) as engine:
        config = (await engine.state()).document.config
        if config == before.document.config:
            assert not answered
        else:
            assert config.bias_update == "off"
            assert config.router_bias != content_hash(checkpoint_bias())
        assert config.router_bias is not None
        served = engine.core.bias
        assert served is not None
        assert content_hash(served) == config.router_bias
        versions = [info.version for info in engine.governor.live.biases.versions()]
        assert versions == sorted(set(versions))


@pytest.mark.parametrize("points", range(4))
async def test_mark_good_is_whole_or_absent(tmp_path: Path, points: int) -> None:
    database = DyingDatabase(tmp_path / "engine.db")
    core = EchoCore()
    async with echo_engine(tmp_path, core=core, database=database) as engine:
        core.move_bias(0.25)
        await engine.governor.live.bias_now()
        assert core.bias is not None
        moved = engine.governor.live.biases.put(core.bias, BiasOrigin.REGULATOR, now=1.0)
        database.points_left = points
        body = BiasMarkGood(bias_hash=moved.bias_hash).model_dump(mode="json")
        answer = await engine.mutate("POST", "router-bias/mark-good", body)
        answered = answer.status_code == 200
    async with echo_engine(tmp_path) as engine:
        good = (await engine.get("router-bias")).json()["last_known_good"]
        assert good in (moved.bias_hash, content_hash(checkpoint_bias()))
        assert good == moved.bias_hash or not answered
        assert engine.core.live.lkg_hash == good


def test_a_bias_file_without_its_row_is_no_version(tmp_path: Path) -> None:
    def dies_after_writing(path: Path, data: bytes) -> None:
        write_file(path, data)
        raise DiedError

    database = Database(tmp_path / "engine.db")
    store = BiasStore(database, tmp_path / "biases", write=dies_after_writing)
    with pytest.raises(DiedError):
        store.put(checkpoint_bias(), BiasOrigin.UPLOAD, now=1.0)
    again = BiasStore(database, tmp_path / "biases")
    assert again.versions() == ()
    assert again.put(checkpoint_bias(), BiasOrigin.UPLOAD, now=2.0).version == 1
    database.close()


def test_a_half_written_bias_is_never_served(tmp_path: Path) -> None:
    database = Database(tmp_path / "engine.db")
    store = BiasStore(database, tmp_path / "biases", write=lambda path, data: (
        path.write_bytes(data[: len(data) // 2]), None)[1])  # fmt: skip
    info = store.put(checkpoint_bias(), BiasOrigin.UPLOAD, now=1.0)
    with pytest.raises(CorruptSnapshotError, match="does not match its hash"):
        store.load(info.bias_hash)
    database.close()


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.support.echo_engine import echo_engine

async def main():
    async with echo_engine(Path(sys.argv[1])) as engine:
        for size in (128, 256, 512, 1024) * 1000:
            answer = await engine.put_config(chunk_size=size)
            print(answer.json()["observed_generation"], size, flush=True)

asyncio.run(main())
"""


def test_kill_9_loses_no_answered_generation(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(15)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    process.wait()
    generation, size = (
        int(word) for word in [line for line in lines if line.endswith("\n")][-1].split()
    )
    database = Database(tmp_path / "engine.db")
    rows = database.rows("SELECT document FROM generations ORDER BY generation")
    database.close()
    assert len(rows) >= generation
    assert f'"chunk_size":{size}' in rows[generation - 1][0]
