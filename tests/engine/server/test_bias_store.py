from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from contract.admin import BiasOrigin, BiasStatus
from engine.errors import CorruptSnapshotError, NotFoundError
from engine.server import bias_store
from engine.server.answers import Answer
from engine.server.bias_store import BiasStore
from engine.server.core import Bias
from engine.server.database import Database

ANSWER = Answer(status=200, body="{}")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "engine.db")
    yield database
    database.close()


def bias(value: float) -> Bias:
    return np.full((2, 3), value, dtype=np.float32)


def put(store: BiasStore, value: float, origin: BiasOrigin = BiasOrigin.REGULATOR) -> str:
    return store.put(bias(value), origin, now=1.0).bias_hash


def test_values_come_back_as_they_were(database: Database, tmp_path: Path) -> None:
    store = BiasStore(database, tmp_path / "b")
    values = np.array([[0.1, -0.0, 3e-39], [1e30, -1.5, 0.25]], dtype=np.float32)
    stored = store.put(values, BiasOrigin.UPLOAD, now=1.0)
    assert store.load(stored.bias_hash).tobytes() == values.tobytes()
    assert stored.max_abs == np.float32(1e30)


def test_versions_count_up_and_are_not_used_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bias_store, "KEPT_SNAPSHOTS", 2)
    store = BiasStore(database, tmp_path / "b")
    hashes = [put(store, value) for value in range(5)]
    assert store.forget_old_snapshots(keep=()) == 3
    assert not store.path(hashes[0]).exists()
    again = BiasStore(database, tmp_path / "b")
    assert [info.version for info in again.versions()] == [4, 5]
    assert again.put(bias(9), BiasOrigin.UPLOAD, now=2.0).version == 6


def test_what_is_referred_to_is_not_forgotten(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bias_store, "KEPT_SNAPSHOTS", 1)
    store = BiasStore(database, tmp_path / "b")
    good, baking, uploaded = put(store, 1), put(store, 2), put(store, 3, BiasOrigin.UPLOAD)
    store.mark_good(good, ticket=None, answer=ANSWER)
    store.set_status(baking, BiasStatus.BAKING)
    live, old, new = put(store, 4), put(store, 5), put(store, 6)
    store.forget_old_snapshots(keep={live})
    kept = {info.bias_hash for info in store.versions()}
    assert kept == {good, baking, uploaded, live, new}
    assert old not in kept


def test_a_former_good_one_goes_back_to_baking(database: Database, tmp_path: Path) -> None:
    store = BiasStore(database, tmp_path / "b")
    one, two = put(store, 1), put(store, 3)
    store.mark_good(one, ticket=None, answer=ANSWER)
    assert store.info(two).distance == 2
    store.mark_good(two, ticket=None, answer=ANSWER)
    assert store.info(one).status is BiasStatus.BAKING
    assert store.last_known_good == store.info(two)
    assert [info.distance for info in store.versions()] == [2, 0]


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_file_is_quarantined_for_good(
    database: Database, tmp_path: Path, damage: bytes | None
) -> None:
    store = BiasStore(database, tmp_path / "b")
    stored = put(store, 1)
    path = store.path(stored)
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(CorruptSnapshotError):
        store.load(stored)
    again = BiasStore(database, tmp_path / "b")
    assert again.info(stored).status is BiasStatus.QUARANTINED
    with pytest.raises(CorruptSnapshotError):
        again.mark_good(stored, ticket=None, answer=ANSWER)


def test_other_values_under_the_name_are_not_served(database: Database, tmp_path: Path) -> None:
    store = BiasStore(database, tmp_path / "b")
    one, two = put(store, 1), put(store, 2)
    store.path(one).write_bytes(store.path(two).read_bytes())
    with pytest.raises(CorruptSnapshotError):
        store.load(one)


def test_the_same_values_heal_a_damaged_version(database: Database, tmp_path: Path) -> None:
    store = BiasStore(database, tmp_path / "b")
    stored = put(store, 1)
    store.path(stored).write_bytes(b"")
    with pytest.raises(CorruptSnapshotError):
        store.load(stored)
    assert put(store, 1) == stored
    assert store.info(stored).status is BiasStatus.CANDIDATE
    assert store.info(stored).version == 1
    assert np.array_equal(store.load(stored), bias(1))


def test_an_unknown_hash_names_the_newest(database: Database, tmp_path: Path) -> None:
    store = BiasStore(database, tmp_path / "b")
    stored = put(store, 1)
    with pytest.raises(NotFoundError) as caught:
        store.load("0" * 64)
    assert caught.value.bound == [stored]
