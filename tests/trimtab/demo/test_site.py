import stat
from pathlib import Path

from controlplane.settings import load_settings
from engine.server.settings import read_settings
from trimtab.demo.site import ENGINE_ID, Site


def test_both_programs_read_the_files_that_a_site_writes(tmp_path: Path) -> None:
    site = Site(tmp_path / "a folder")
    site.write()
    control = load_settings(site.control_file)
    assert control.engines[0].id == ENGINE_ID
    assert control.engines[0].url == site.engine_url
    assert control.governor.policy == "fast"
    engine = read_settings(site.engine_file)
    assert engine.telemetry_url == site.control_url
    assert engine.runtime == site.start_config
    assert engine.faults == set(site.faults)


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write()
    for file in (site.engine_file, site.control_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_every_site_has_its_own_secrets_and_ports(tmp_path: Path) -> None:
    first, second = Site(tmp_path / "1"), Site(tmp_path / "2")
    assert first.tokens != second.tokens
    assert len({first.engine_port, first.control_port}) == 2
