"""A control plane to ask, and frames for it that are sealed as time passes."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from contract.frame import ARRAYS
from controlplane.app import create_app
from controlplane.clock import ManualClock
from controlplane.history.upkeep import Upkeep
from controlplane.settings import load_settings
from tests.support.frames import START, make_frame, received

ADMIN = "tt_admin-secret-16"
BASE = START - START % 3600
NAMES = tuple(name for name, spec in ARRAYS.items() if spec.every_second)


@pytest.fixture
def clock():
    return ManualClock(BASE)


@pytest.fixture
def app(database_url, clock):
    return create_app(
        load_settings(database_url=database_url, auth={"admin_token": ADMIN}), clock=clock
    )


@pytest.fixture
def client(app):
    with TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"}) as client:
        yield client


@pytest.fixture
def send(app, clock):
    rng = np.random.default_rng(3)

    def send(
        seconds: int, *, engines=("e0", "e1"), first=0, every=1, **more
    ) -> dict[str, np.ndarray]:
        """Frames of `seconds`, sealed as time passes; gives the sum of each engine's loads.

        Each frame covers `every` seconds.
        """
        plane = app.state.plane
        upkeep = Upkeep(plane.history)
        totals: dict[str, np.ndarray] = {}
        for start in range(first, first + seconds, 60):
            batch = [
                make_frame(i // every, engine_id=engine, started=BASE + i, fill=6, rng=rng,
                           experts=8, arrays=NAMES, interval_seconds=every, **more)
                for engine in engines
                for i in range(start, min(start + 60, first + seconds), every)
            ]  # fmt: skip
            plane.history.append([received(frame) for frame in batch])
            for frame in batch:
                load = frame.arrays["assignments"].astype(np.int64)
                engine = frame.header.engine_id
                totals[engine] = totals.get(engine, 0) + load
            clock.advance(min(60, first + seconds - start))
            upkeep.seal()
        return totals

    return send
