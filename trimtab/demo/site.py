"""One engine and one control plane on loopback: their settings files, tokens and addresses."""

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from contract.runtime_config import RuntimeConfig
from engine.faults.names import FAULTS
from engine.server.tokens import Role, token_hash
from trimtab.demo.processes import free_port
from trimtab.output_file import write_private

ENGINE_ID = "demo-engine"
GROUP = "demo-group"
CONTEXT_TOKENS = 2048
RANKS = 2
# At C = 1.25 a chunk of one prompt overflows although its router is healthy; the demo starts where
# a healthy reference checkpoint holds 5 %.
START_CONFIG = RuntimeConfig(capacity_factor="2", cap_min=40, chunk_size=512, max_concurrency=64)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Bearer tokens of one run; fresh every time, kept in files of mode 0600."""

    inference: str = field(default_factory=lambda: _token("inference"))
    engine_admin: str = field(default_factory=lambda: _token("engine-admin"))
    telemetry: str = field(default_factory=lambda: _token("telemetry"))
    control_admin: str = field(default_factory=lambda: _token("admin"))


@dataclass(frozen=True, slots=True)
class Site:
    """Where everything of a run lies.

    Attributes:
        folder: settings, database, engine state, logs.
        engine_port, control_port: on 127.0.0.1.
        policy: name of the governing policy.
        faults: names that the engine may inject.
    """

    folder: Path
    policy: str = "fast"
    faults: tuple[str, ...] = tuple(FAULTS)
    engine_port: int = field(default_factory=free_port)
    control_port: int = field(default_factory=free_port)
    tokens: Tokens = field(default_factory=Tokens)
    start_config: RuntimeConfig = START_CONFIG

    @property
    def engine_url(self) -> str:
        """Base URL of the engine."""
        return f"http://127.0.0.1:{self.engine_port}"

    @property
    def control_url(self) -> str:
        """Base URL of the control plane."""
        return f"http://127.0.0.1:{self.control_port}"

    @property
    def database_url(self) -> str:
        """The control plane's SQLite file."""
        return f"sqlite:///{self.folder / 'trimtab.db'}"

    @property
    def engine_file(self) -> Path:
        """Settings of the engine."""
        return self.folder / "engine.toml"

    @property
    def control_file(self) -> Path:
        """Settings of the control plane."""
        return self.folder / "control.toml"

    def write(self) -> None:
        """Write both settings files, readable by their owner only."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self.engine_file, _toml(self._engine_settings()), "--keep")
        write_private(self.control_file, _toml(self._control_settings()), "--keep")

    def _engine_settings(self) -> dict[str, object]:
        roles = {
            Role.INFERENCE: self.tokens.inference,
            Role.ADMIN: self.tokens.engine_admin,
        }
        return {
            "engine_id": ENGINE_ID,
            "group": GROUP,
            "ranks": RANKS,
            "context_tokens": CONTEXT_TOKENS,
            "state_dir": str(self.folder / "engine"),
            "period_seconds": 2.0,
            "whatif_every": 4,
            "telemetry_url": self.control_url,
            "telemetry_token": self.tokens.telemetry,
            "port": self.engine_port,
            "faults": list(self.faults),
            "runtime": self.start_config.model_dump(mode="json", exclude_none=True),
            "tokens": [
                {"name": f"demo-{role}", "role": str(role), "sha256": token_hash(token)}
                for role, token in roles.items()
            ],
        }

    def _control_settings(self) -> dict[str, object]:
        return {
            "database_url": self.database_url,
            "port": self.control_port,
            "auth": {"admin_token": self.tokens.control_admin},
            "governor": {"policy": self.policy},
            "engines": [
                {
                    "id": ENGINE_ID,
                    "url": self.engine_url,
                    "group": GROUP,
                    "admin_token": self.tokens.engine_admin,
                    "telemetry_token": self.tokens.telemetry,
                }
            ],
        }


def _token(purpose: str) -> str:
    return f"demo-{purpose}-{secrets.token_hex(32)}"


def _toml(values: dict[str, object]) -> str:
    """TOML of plain values, lists and tables one level deep; a JSON string is a TOML string."""
    plain = [f"{k} = {json.dumps(v)}" for k, v in values.items() if not _is_table(v)]
    for key, value in values.items():
        if isinstance(value, dict):
            plain += ["", f"[{key}]", *(f"{k} = {json.dumps(v)}" for k, v in value.items())]
        elif _is_table(value) and isinstance(value, list):
            for row in value:
                plain += ["", f"[[{key}]]", *(f"{k} = {json.dumps(v)}" for k, v in row.items())]
    return "\n".join(plain) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    )
