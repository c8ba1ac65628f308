"""A fleet's folder: tokens between engines and control plane, settings, state, logs."""

import json
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.simulation.fleet import FleetOptions, Member
from engine.simulation.scenario import Scenario
from engine.simulation.serving.traffic import RecordedWorkload
from trimtab.errors import InputError
from trimtab.output_file import write_private
from trimtab.simulated.control_address import control_address

CONTROL_FILE = "control.toml"
TOKEN_FILE = "tokens.json"  # noqa: S105 - a file name


@dataclass(frozen=True)
class FleetRequest:
    """What `trimtab simulate` was asked for.

    Attributes:
        engines: how many, in groups of `group_size`.
        affected: so many engines, from the first, run the scenario's events.
        control_url: where frames go, and so where a control plane of this folder listens.
        policy: of such a control plane.
        workload: recorded requests in place of the scenario's; each engine begins elsewhere in it.
    """

    scenario: Scenario
    engines: int
    group_size: int
    affected: int
    speed: float
    seed: int
    folder: Path
    port: int
    control_url: str
    policy: str
    workload: RecordedWorkload | None = None


@dataclass(frozen=True)
class FleetSite:
    """Everything on disk of one fleet; tokens are made once and kept, mode 0600."""

    request: FleetRequest
    tokens: dict[str, str]

    @classmethod
    def open(cls, request: FleetRequest) -> "FleetSite":
        """Read the folder's tokens, or make them, and write the control plane's settings.

        Raises:
            InputError: the request's `control_url` is no address, the folder cannot be used, or it
                holds settings that are not of a fleet.
        """
        control_address(request.control_url)
        file = request.folder / TOKEN_FILE
        tokens = _kept_tokens(request.folder)
        wanted = ["admin"]
        for name in _ids(request.engines):
            wanted += [f"{name}.admin", f"{name}.telemetry"]
        for name in wanted:
            tokens.setdefault(name, f"sim-{secrets.token_urlsafe(32)}")
        site = cls(request, tokens)
        write_private(file, json.dumps(tokens, indent=2) + "\n", "--folder")
        write_private(site.control_file, site.control_settings(), "--folder")
        return site

    @property
    def control_file(self) -> Path:
        """Settings for `trimtab serve --config`."""
        return self.request.folder / CONTROL_FILE

    def members(self) -> list[Member]:
        """The engines; one scenario, a seed each, a new boot each time."""
        request = self.request
        boot = f"sim-{secrets.token_hex(4)}"
        found = []
        for index, name in enumerate(_ids(request.engines)):
            settings = request.scenario.settings(
                engine_id=name, group=_group(index, request.group_size), seed=request.seed + index,
                boot=boot,
            )  # fmt: skip
            if request.workload is not None:
                begin = request.workload.seconds * index / request.engines
                settings = replace(settings, workload=request.workload, start_at=begin)
            found.append(
                Member(settings, self.tokens[f"{name}.admin"], self.tokens[f"{name}.telemetry"])
            )
        return found

    def options(self) -> FleetOptions:
        """How the fleet runs."""
        request = self.request
        return FleetOptions(
            scenario=request.scenario, state_dir=request.folder / "engines",
            affected=frozenset(_ids(request.engines)[: request.affected]), speed=request.speed,
            telemetry_url=request.control_url, port=request.port,
        )  # fmt: skip

    def control_settings(self) -> str:
        """TOML of a control plane that governs this fleet, where the fleet's frames go.

        Raises:
            InputError: `control_url` is no address.
        """
        request = self.request
        address = control_address(request.control_url)
        # Elsewhere than on loopback takes more settings than these: the host is left to them.
        host = [_line("host", address.host)] if address.can_be_served else []
        lines = [
            _line("database_url", f"sqlite:///{(request.folder / 'trimtab.db').resolve()}"),
            *host, _line("port", address.port), "", "[auth]",
            _line("admin_token", self.tokens["admin"]), "", "[governor]",
            _line("policy", request.policy),
        ]  # fmt: skip
        for index, name in enumerate(_ids(request.engines)):
            lines += [
                "", "[[engines]]", _line("id", name),
                _line("url", f"http://127.0.0.1:{request.port}/engines/{name}"),
                _line("group", _group(index, request.group_size)),
                _line("admin_token", self.tokens[f"{name}.admin"]),
                _line("telemetry_token", self.tokens[f"{name}.telemetry"]),
            ]  # fmt: skip
        return "\n".join(lines) + "\n"


def _kept_tokens(folder: Path) -> dict[str, str]:
    """The tokens of the fleet that the folder is of; none in a new one."""
    file, control = folder / TOKEN_FILE, folder / CONTROL_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            if control.exists():
                raise InputError(
                    f"--folder {folder} holds a {CONTROL_FILE} that is of no simulated fleet: "
                    "choose another folder"
                )
            return {}
        kept = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--folder {folder} cannot be used: {error.strerror}") from None
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not all(isinstance(token, str) for token in kept.values()):
        raise InputError(f"--folder {folder}: {file} holds no tokens of a fleet")
    return kept


def _ids(count: int) -> list[str]:
    width = max(2, len(str(count - 1)))
    return [f"sim-{index:0{width}d}" for index in range(count)]


def _group(index: int, size: int) -> str:
    return f"sim-group-{index // size}"


def _line(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value)}"
