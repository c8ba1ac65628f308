"""docker-compose.yml: parses, is bound to loopback, holds no secret, mounts what exists."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.settings import load_settings
from engine.server.settings import read_settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
VARIABLE = re.compile(r"\$\{(\w+)(?::[?-][^}]*)?\}")


def new_env() -> dict[str, str]:
    lines = runpy.run_path(str(ROOT / "deploy" / "new_env.py"))["env_lines"]()
    return dict(line.split("=", 1) for line in lines)


def environment(service: str, env: dict[str, str]) -> dict[str, str]:
    return {
        name: VARIABLE.sub(lambda found: env[found[1]], value)
        for name, value in SERVICES[service]["environment"].items()
    }


def test_the_whole_installation_is_there():
    assert set(SERVICES) == {
        "postgres", "controlplane", "engine", "prometheus", "alertmanager", "grafana",
    }  # fmt: skip


@pytest.mark.parametrize("name", SERVICES)
def test_every_published_port_is_on_loopback(name):
    ports = SERVICES[name].get("ports", [])
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_is_pinned_and_every_mount_exists(name):
    service = SERVICES[name]
    if "image" in service:
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", service["image"])
    else:
        assert (ROOT / service["build"]["dockerfile"]).exists()
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("./"):
            assert any((ROOT / source).iterdir())
        else:
            assert source in COMPOSE["volumes"]


def test_every_secret_comes_from_the_environment():
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search(r"TOKEN|PASSWORD", key) and not key.endswith("TOKENS"):
                assert VARIABLE.fullmatch(value), f"{name} has {key} written down"
    assert all(set(secret) == {"environment"} for secret in COMPOSE["secrets"].values())


def test_new_env_gives_every_variable_and_never_the_same_twice():
    named = {found[0] for found in VARIABLE.finditer(TEXT)}
    wanted = {VARIABLE.fullmatch(text)[1] for text in named if ":-" not in text}  # type: ignore[index]
    wanted |= {secret["environment"] for secret in COMPOSE["secrets"].values()}
    one, other = new_env(), new_env()
    assert set(one) == wanted
    assert not set(one.values()) & set(other.values())


def test_the_control_plane_accepts_its_environment(monkeypatch):
    for name, value in environment("controlplane", new_env()).items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert [engine.id for engine in settings.engines] == ["engine-0"]
    assert settings.engines[0].url == "http://engine:8100"


def test_the_engine_accepts_its_environment_and_knows_the_control_planes_token(monkeypatch):
    env = {**new_env(), "TORCH_INDEX": ""}
    for name, value in environment("engine", env).items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert settings.engine_id == "engine-0"
    assert {record.name for record in settings.tokens} == {"controlplane", "prometheus"}
    assert settings.tokens[0].sha256 == env["ENGINE_ADMIN_TOKEN_SHA256"]


def test_scrapes_alerts_and_datasource_name_the_services():
    prometheus = (ROOT / "alerts/generated/prometheus.yaml").read_text()
    alertmanager = (ROOT / "alerts/generated/alertmanager.yaml").read_text()
    datasource = (ROOT / "deploy/grafana/datasources/prometheus.yaml").read_text()
    for text, host in (
        (prometheus, "engine:8100"), (prometheus, "controlplane:8700"),
        (prometheus, "alertmanager:9093"), (alertmanager, "controlplane:8700"),
        (datasource, "prometheus:9090"),
    ):  # fmt: skip
        assert host in text
    paths = re.findall(r"/run/secrets/(\w+)", prometheus + alertmanager)
    assert set(paths) == set(COMPOSE["secrets"])


def test_the_dashboards_are_provisioned_where_they_are_mounted():
    provider = yaml.safe_load((ROOT / "deploy/grafana/dashboards/trimtab.yaml").read_text())
    path = provider["providers"][0]["options"]["path"]
    assert f"./dashboards/generated:{path}:ro" in SERVICES["grafana"]["volumes"]
    for file in (ROOT / "dashboards/generated").glob("*.json"):
        assert json.loads(file.read_text())["uid"]
