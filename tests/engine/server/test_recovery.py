from pathlib import Path

import numpy as np
import pytest

from contract.admin import BiasStatus, CauseKind
from contract.runtime_config import RuntimeConfig
from engine.errors import RefusedError, StateError
from engine.server.bias_file import content_hash
from engine.server.durable import FolderLock
from tests.support.echo_core import EchoCore, EchoCoreWithoutBias, checkpoint_bias, renamed
from tests.support.echo_engine import echo_engine


async def test_the_checkpoints_bias_is_version_one_and_good(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        (info,) = engine.governor.live.biases.versions()
        assert (info.version, info.origin, info.status) == (1, "checkpoint", "last_known_good")
        assert engine.core.live.lkg_version == 1
        assert engine.core.live.bias_version == 1


async def test_the_stored_config_wins_over_defaults(tmp_path: Path) -> None:
    async with echo_engine(tmp_path, initial=RuntimeConfig(chunk_size=256)) as engine:
        assert (await engine.state()).document.config.chunk_size == 256
        await engine.put_config(chunk_size=1024)
    async with echo_engine(tmp_path, initial=RuntimeConfig(chunk_size=128)) as engine:
        state = await engine.state()
        assert state.document.config.chunk_size == 1024
        assert state.document.generation == 2
        assert engine.core.live.generation == 2


async def test_biases_and_their_status_outlive_the_process(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.core.move_bias(0.25)
        await engine.mutate("POST", "router-bias/mark-good", {}, If_Match="*")
        before = engine.governor.live.biases.versions()
    async with echo_engine(tmp_path) as engine:
        assert engine.governor.live.biases.versions() == before
        assert engine.core.live.lkg_version == 2
        assert engine.core.live.bias_version == 1


async def test_a_damaged_configured_bias_is_replaced_by_the_last_good(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        good = content_hash(checkpoint_bias())
        engine.core.move_bias(0.25)
        await engine.governor.live.bias_now()
        body = {"layers": [0], "bias_hash": good, "cause": {"kind": "operator"}}
        await engine.mutate("POST", "router-bias/rollback", body)
        configured = (await engine.state()).document.config.router_bias
        assert configured is not None
        engine.governor.live.biases.path(configured).write_bytes(b"damaged")
    async with echo_engine(tmp_path) as engine:
        state = await engine.state()
        assert state.document.config.router_bias == good
        assert state.document.cause.kind is CauseKind.BOOT
        assert "damaged" in state.document.cause.reason
        assert engine.governor.live.biases.info(configured).status is BiasStatus.QUARANTINED
        answer = await engine.get(f"router-bias/{configured}")
        assert (answer.status_code, answer.json()["type"]) == (500, "corrupt-snapshot")


async def test_a_damaged_last_good_gives_way_to_the_checkpoint(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.core.move_bias(0.25)
        await engine.mutate("POST", "router-bias/mark-good", {}, If_Match="*")
        good = engine.governor.live.biases.last_known_good
        assert good is not None
        engine.governor.live.biases.path(good.bias_hash).unlink()
    async with echo_engine(tmp_path) as engine:
        assert engine.core.live.lkg_hash == content_hash(checkpoint_bias())


async def test_a_damaged_checkpoint_version_is_healed_from_the_model(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        path = engine.governor.live.biases.path(content_hash(checkpoint_bias()))
        path.write_bytes(path.read_bytes()[:-1])
    async with echo_engine(tmp_path) as engine:
        assert engine.core.bias is not None
        assert np.array_equal(engine.core.bias, checkpoint_bias())
        assert engine.core.live.lkg_version == 1


async def test_state_of_another_model_is_refused(tmp_path: Path) -> None:
    async with echo_engine(tmp_path):
        pass
    other = renamed(EchoCore(), "f" * 64)
    with pytest.raises(StateError, match="of another model"):
        async with echo_engine(tmp_path, core=other):
            pass


async def test_a_stored_config_that_cannot_run_any_more_says_so(tmp_path: Path) -> None:
    async with echo_engine(tmp_path):
        pass
    core = EchoCore()
    core.refuse_commit = RefusedError("needs 9 bytes, 8 are free", field="capacity_factor")
    with pytest.raises(StateError, match="needs 9 bytes, 8 are free; choose another state folder"):
        async with echo_engine(tmp_path, core=core):
            pass


async def test_a_model_without_a_bias_has_none_of_its_routes(tmp_path: Path) -> None:
    async with echo_engine(tmp_path, core=EchoCoreWithoutBias()) as engine:
        assert (await engine.state()).document.config.router_bias is None
        assert engine.core.live.bias is None
        assert (await engine.get("router-bias")).json()["versions"] == []
        for path in ("rollback", "mark-good", "recalibrate"):
            body = {"bias_hash": "0" * 64, "cause": {"kind": "operator"}}
            given = body if path == "rollback" else {}
            answer = await engine.mutate("POST", f"router-bias/{path}", given)
            assert (answer.status_code, answer.json()["field"]) == (409, "router_bias")
        knobs = {k["knob"]: k for k in (await engine.get("capabilities")).json()["knobs"]}
        assert knobs["router_bias"]["support"] == "absent"
        assert knobs["bias_update"]["reason"] == "the model has no selection bias"
        refused = await engine.put_config(bias_update="on")
        assert refused.json()["field"] == "config.bias_update"


def test_one_engine_a_state_folder(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(StateError, match="another engine uses the state folder"):
        FolderLock(tmp_path)
    lock.close()
    FolderLock(tmp_path).close()


async def test_a_damaged_database_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "engine.db").write_bytes(b"not a database" * 400)
    with pytest.raises(StateError, match="cannot be used: file is not a database"):
        async with echo_engine(tmp_path):
            pass
