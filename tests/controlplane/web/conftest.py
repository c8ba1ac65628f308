"""A control plane whose engine is governed by hand: frames, decisions and one waiting action."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.testclient import TestClient

from controlplane.actuator import policy_store
from controlplane.app import create_app
from controlplane.auth.access import SESSION_COOKIE
from controlplane.auth.roles import Role
from controlplane.clock import ManualClock
from controlplane.db.database import Database, open_database
from controlplane.policy.knob import Knob, Mode
from controlplane.settings import EngineSettings, GovernorSettings, Settings
from tests.support.contract_engine import ContractEngine
from tests.support.contract_engine_app import contract_engine_app
from tests.support.databases import without_fsync
from tests.support.loopback_server import Switchboard
from tests.support.plant import Plant

PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


@dataclass
class Browser:
    """One logged-in person. All share one client: its event loop stays up between requests."""

    client: TestClient
    cookie: str

    def get(self, path: str, *, headers: dict[str, str] | None = None):
        return self.client.get(path, headers=self._headers(headers), follow_redirects=False)

    def post(self, path: str, *, data: dict | None = None):
        return self.client.post(
            path, data=data, headers=self._headers(None), follow_redirects=False
        )

    def _headers(self, more: dict[str, str] | None) -> dict[str, str]:
        cookie = f"{SESSION_COOKIE}={self.cookie}"
        return {"Accept": "text/html", "Cookie": cookie, **(more or {})}


@dataclass
class Site:
    """The application, its engine, and browsers that are logged in."""

    app: FastAPI
    clock: ManualClock
    database: Database
    engine: ContractEngine
    plant: Plant
    browsers: dict[Role, Browser]
    anonymous: TestClient

    def csrf(self, role: Role) -> str:
        with self.database.engine.connect() as connection:
            found = connection.exec_driver_sql(
                f"SELECT csrf_token FROM web_session WHERE role = '{role}'"
            )
            return str(found.scalars().first())

    def post(self, role: Role, path: str, data: dict | None = None):
        """Send a form as that person's browser would."""
        sent = {"csrf_token": self.csrf(role), **(data or {})}
        return self.browsers[role].post(path, data=sent)

    def run(self, seconds: int, *, every: int = 2) -> None:
        """Frames and the governor's beats."""
        governor = self.app.state.governor
        for second in range(0, seconds, every):
            self.clock.advance(every)
            self.plant.emit(self.clock.now(), every)
            if governor.leader.lease.fence() is None:
                governor.leader.lease.tend()
            fence = governor.leader.lease.fence()
            if second % 10 == 0:
                governor.tend(fence)
            governor.evaluate_due(fence)
            governor.reconcile(fence)

    @property
    def action_id(self) -> str:
        return str(self.browsers[Role.VIEWER].get("/api/v1/actions").json()[0]["action_id"])


@contextmanager
def a_site(
    database: Database, url: str, engine: ContractEngine, clock: ManualClock
) -> Iterator[Site]:
    settings = Settings(
        database_url="sqlite:///unused.db", governor=GovernorSettings(enabled=False, policy="fast"),
        engines=(EngineSettings(id="engine-0", url=url, admin_token=SecretStr(engine.token)),),
    )  # fmt: skip
    app = create_app(settings, clock=clock, database=database)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=True) as anonymous:
        browsers = {}
        for role in PEOPLE:
            sessions = app.state.access.sessions
            opened = sessions.redeem(sessions.new_link(f"anna-{role}", role, by="test"))
            browsers[role] = Browser(anonymous, opened.cookie)
        plant = Plant(engine, app.state.history)
        yield Site(app, clock, database, engine, plant, browsers, anonymous)


@contextmanager
def healthy(database: Database, host: tuple[Switchboard, str]) -> Iterator[Site]:
    """Forty seconds of frames, evaluated."""
    without_fsync(database)
    clock = ManualClock(1_700_000_040.0)
    engine = ContractEngine(now=clock.now)
    switchboard, base_url = host
    with (
        switchboard.mounted(base_url, contract_engine_app(engine)) as url,
        a_site(database, url, engine, clock) as made,
    ):
        clock.advance(40)
        made.plant.emit(clock.now(), 40)
        made.run(2)
        yield made


def drift(site: Site) -> Site:
    """The bias drifts, is seen, and the rollback waits for approval."""
    with site.database.write() as session:
        policy_store.assign(
            session, engine_id="engine-0", policy="fast", modes={Knob.ROUTER_BIAS: Mode.APPROVE},
            author="test", at=site.clock.now(),
        )  # fmt: skip
    site.engine.drift()
    site.run(24)
    return site


@pytest.fixture
def site(sqlite_database, loopback_host) -> Iterator[Site]:
    """A healthy site of one test's own."""
    with healthy(sqlite_database, loopback_host) as made:
        yield made


@pytest.fixture
def drifted(site) -> Site:
    """A drifted site of one test's own."""
    return drift(site)


@pytest.fixture(scope="session")
def looked_at(sqlite_template, tmp_path_factory, loopback_host) -> Iterator[Site]:
    """A drifted site that tests only look at."""
    file = tmp_path_factory.mktemp("site") / "trimtab.db"
    shutil.copy(sqlite_template, file)
    database = open_database(f"sqlite:///{file}")
    with healthy(database, loopback_host) as made:
        yield drift(made)


@pytest.fixture
def see(looked_at) -> Callable[[str], str]:
    """A page of that site as the administrator sees it."""

    def get(path: str) -> str:
        answer = looked_at.browsers[Role.ADMIN].get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    return get
