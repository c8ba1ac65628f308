"""A fleet and a real control plane on loopback: configured for each other, frames without a gap."""

import asyncio
import time

import pytest
from sqlalchemy import select

from controlplane.app import create_app
from controlplane.db.database import open_database
from controlplane.history.models import EngineBoot
from controlplane.settings import load_settings
from engine.simulation import scenario as scenarios
from engine.simulation.fleet import Fleet
from migrations.run import upgrade
from tests.support.loopback_server import served
from trimtab.demo.processes import free_port
from trimtab.errors import InputError
from trimtab.simulated.site import FleetRequest, FleetSite


def request_of(folder, **replaced):
    calm = scenarios.load("quiet-normal")
    values = {
        "scenario": calm, "engines": 3, "group_size": 2, "affected": 1, "speed": 1.0, "seed": 0,
        "folder": folder, "port": free_port(), "control_url": "http://127.0.0.1:1",
        "policy": "default",
    }  # fmt: skip
    return FleetRequest(**values | replaced)


def wait_for_ticks(fleet, count):
    deadline = time.monotonic() + 60
    while min(hosted.core.engine.sequence for hosted in fleet.hosted) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_tokens_are_made_once_and_readable_by_their_owner_only(tmp_path):
    first, second = FleetSite.open(request_of(tmp_path)), FleetSite.open(request_of(tmp_path))
    assert first.tokens == second.tokens
    assert len(set(first.tokens.values())) == 7
    for name in ("tokens.json", "control.toml"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


def test_settings_and_tokens_of_somebody_else_are_kept(tmp_path):
    (tmp_path / "control.toml").write_text("port = 1\n")
    with pytest.raises(InputError, match=r"holds a control\.toml that is of no simulated fleet"):
        FleetSite.open(request_of(tmp_path))
    assert (tmp_path / "control.toml").read_text() == "port = 1\n"
    (tmp_path / "tokens.json").write_text("[]")
    with pytest.raises(InputError, match="holds no tokens"):
        FleetSite.open(request_of(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be used"):
        FleetSite.open(request_of(tmp_path / "file"))


def test_the_control_plane_is_configured_for_every_engine(tmp_path):
    site = FleetSite.open(request_of(tmp_path))
    settings = load_settings(site.control_file)
    assert [engine.id for engine in settings.engines] == ["sim-00", "sim-01", "sim-02"]
    assert [engine.group for engine in settings.engines] == ["sim-group-0"] * 2 + ["sim-group-1"]
    assert settings.engines[0].url.endswith("/engines/sim-00")


@pytest.mark.parametrize(
    ("url", "listens"),
    [
        ("http://127.0.0.1:8999", ("127.0.0.1", 8999)),
        ("http://[::1]:8999/", ("::1", 8999)),
        ("http://localhost", ("localhost", 80)),
        ("https://plane.example:8443", ("127.0.0.1", 8443)),
    ],
)
def test_the_control_plane_listens_where_frames_go(tmp_path, url, listens):
    site = FleetSite.open(request_of(tmp_path, control_url=url))
    settings = load_settings(site.control_file)
    assert (settings.host, settings.port) == listens
    assert site.options().telemetry_url == url


@pytest.mark.parametrize("url", ["127.0.0.1:8700", "ftp://a:1", "http://", "http://a:99999"])
def test_a_control_url_that_is_no_address_is_refused_by_its_option(tmp_path, url):
    with pytest.raises(InputError, match="--control-url"):
        FleetSite.open(request_of(tmp_path, control_url=url))


def test_a_second_start_is_another_boot(tmp_path):
    boots = [FleetSite.open(request_of(tmp_path)).members()[0].settings.boot for _ in range(2)]
    assert boots[0] != boots[1]


async def test_frames_arrive_over_http_without_a_gap(tmp_path):
    calm = scenarios.load("quiet-normal")
    settings = load_settings(FleetSite.open(request_of(tmp_path)).control_file)
    database = open_database(settings.database_url)
    upgrade(database)
    with served(create_app(settings, database=database)) as url:
        site = FleetSite.open(request_of(tmp_path, control_url=url, scenario=calm))
        fleet = Fleet(site.members(), site.options())
        async with fleet.running():
            await asyncio.to_thread(wait_for_ticks, fleet, 4)
        counts = fleet.counts()
        with database.read() as session:
            boots = list(session.scalars(select(EngineBoot)))
    assert counts["sent"] >= 12
    assert counts["dropped"] == 0
    assert {boot.engine_id for boot in boots} == {"sim-00", "sim-01", "sim-02"}


@pytest.mark.parametrize("engines", [1, 12, 120])
def test_ids_are_of_one_width(tmp_path, engines):
    site = FleetSite.open(request_of(tmp_path, engines=engines))
    ids = [name.removesuffix(".admin") for name in site.tokens if name.endswith(".admin")]
    assert len(ids) == engines
    assert len({len(name) for name in ids}) == 1
