from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient

from controlplane.app import create_app
from controlplane.auth.roles import Role
from controlplane.clock import ManualClock
from controlplane.settings import EngineSettings, GovernorSettings, Settings
from tests.support.acting import Api
from tests.support.contract_engine import ContractEngine
from tests.support.contract_engine_app import contract_engine_app
from tests.support.databases import without_fsync
from tests.support.governed import Ground, make_ground
from tests.support.plant import Plant


@pytest.fixture
def ground(sqlite_database, loopback_host) -> Iterator[Ground]:
    with make_ground(sqlite_database, 1, loopback_host) as made:
        yield made


@pytest.fixture
def group(sqlite_database, loopback_host) -> Iterator[Ground]:
    with make_ground(sqlite_database, 3, loopback_host) as made:
        yield made


@pytest.fixture
def api(sqlite_database, loopback_host) -> Iterator[Api]:
    switchboard, base_url = loopback_host
    without_fsync(sqlite_database)
    clock = ManualClock(1_700_000_040.0)
    engine = ContractEngine(now=clock.now)
    with switchboard.mounted(base_url, contract_engine_app(engine)) as url:
        settings = Settings(
            engines=(
                EngineSettings(
                    id="engine-0", url=url, admin_token=SecretStr(engine.token), group="group-0"
                ),
            ),
            governor=GovernorSettings(enabled=False, policy="fast"),
        )
        app = create_app(settings, clock=clock, database=sqlite_database)
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN, Role.ALERTMANAGER):
            app.state.access.tokens.create(
                role.value, role, by="test", secret=f"{role.value}-{'x' * 32}"
            )
        with TestClient(app, base_url="http://127.0.0.1") as client:
            yield Api(app, client, engine, clock, Plant(engine, app.state.history))
