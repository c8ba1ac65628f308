"""Settings of the control plane: the environment (`TRIMTAB_*`) and a TOML file. The only reader.

The environment wins over the file: `TRIMTAB_PORT=8701`, `TRIMTAB_HISTORY__RING_FRAMES=600`. The
file is `--config`, else `TRIMTAB_CONFIG`, else `trimtab.toml` in the working directory if there.
"""

import ipaddress
import os
import tomllib
from pathlib import Path
from typing import Any, Self

import pydantic_settings
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from contract.settings_error import one_sentence
from controlplane.engine_address import EngineId, EngineToken, EngineUrl
from controlplane.errors import InvalidInputError

DEFAULT_FILE = Path("trimtab.toml")
FILE_VARIABLE = "TRIMTAB_CONFIG"


class Section(BaseModel):
    """A table of the TOML file; a name that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EngineSettings(Section):
    """One governed engine. Engines are configured here, never learnt from telemetry.

    Attributes:
        id: the id that its frames must carry.
        url: base URL of its admin API, e.g. `http://127.0.0.1:8100`.
        admin_token: bearer token that the control plane sends to it.
        telemetry_token: token that the engine sends with its frames; stored hashed at start.
        group: EP group, for canaries; empty takes the frame's.
    """

    id: EngineId
    url: EngineUrl
    admin_token: EngineToken = SecretStr("")
    telemetry_token: SecretStr = SecretStr("")
    group: str = ""


class IngestSettings(Section):
    """Bounds of the receiver.

    Attributes:
        max_body_bytes: of a request as sent, else 413.
        max_inflated_bytes: of a request after decompression, else 413.
        queue_frames: frames that may wait for the writer, else 429.
        batch_frames: frames of one transaction at most.
        commit_pause_seconds: after a commit, how long the next group gathers.
        decode_threads: threads that decode off the event loop.
    """

    max_body_bytes: int = Field(default=20 * 1024 * 1024, ge=1024, le=256 * 1024 * 1024)
    max_inflated_bytes: int = Field(default=64 * 1024 * 1024, ge=1024, le=1024 * 1024 * 1024)
    queue_frames: int = Field(default=512, ge=1, le=65536)
    batch_frames: int = Field(default=256, ge=1, le=4096)
    commit_pause_seconds: float = Field(default=0.1, ge=0, le=1)
    decode_threads: int = Field(default=2, ge=1, le=32)


class HistorySettings(Section):
    """How long each tier is kept, and how much is held in memory.

    Attributes:
        ring_frames: 1 s frames kept for each engine; a slot not yet sealed is never overwritten.
        seal_grace_seconds: how long after its end a minute waits for late frames.
        chunk_hours, rollup_10s_hours, rollup_1m_days, rollup_1h_days: retention by tier.
        cache_bytes: decoded frames held in memory, all engines together.
    """

    ring_frames: int = Field(default=900, ge=60, le=86400)
    seal_grace_seconds: float = Field(default=5.0, ge=0, le=600)
    chunk_hours: int = Field(default=24, ge=1, le=24 * 366)
    rollup_10s_hours: int = Field(default=24, ge=1, le=24 * 366)
    rollup_1m_days: int = Field(default=14, ge=1, le=3660)
    rollup_1h_days: int = Field(default=366, ge=1, le=3660)
    cache_bytes: int = Field(default=64 * 1024 * 1024, ge=0, le=64 * 1024**3)


class AuthSettings(Section):
    """Tokens known from the start, and lifetimes of what people log in with.

    Attributes:
        admin_token, alertmanager_token: stored hashed at start, when set.
        login_link_seconds: life of a one-time login link.
        session_hours: life of a web session.
    """

    admin_token: SecretStr = SecretStr("")
    alertmanager_token: SecretStr = SecretStr("")
    login_link_seconds: int = Field(default=900, ge=10, le=86400)
    session_hours: int = Field(default=12, ge=1, le=24 * 30)


_ALERTS = (
    "MoeBiasDrift", "MoeOverflowHigh", "MoeCapacityEffectiveLow", "MoeCapacityEffectiveCritical",
    "MoeExpertLoadSkew", "MoeExpertLoadSkewSevere", "MoeAssignmentsDropped", "MoeLoadSharesMoved",
    "TtftBurnPage", "TtftBurnPageSlow", "TpotBurnPage", "TpotBurnPageSlow", "OverflowBurnPage",
)  # fmt: skip


class GovernorSettings(Section):
    """What the governor starts with.

    Attributes:
        enabled: False serves without a governor: this process never leads.
        policy: name of the policy of engines that nothing is assigned to.
        alerts: alert name → policy that must govern the engine for the alert to ask for an
            evaluation; "" means whichever does. Other alerts are kept and ignored.
        evaluate_threads: engines that are evaluated side by side.
    """

    enabled: bool = True
    policy: str = Field(default="default", min_length=1, max_length=64)
    alerts: dict[str, str] = Field(default_factory=lambda: dict.fromkeys(_ALERTS, ""))
    evaluate_threads: int = Field(default=4, ge=1, le=64)


class Settings(BaseSettings):
    """All settings of the control plane.

    Attributes:
        database_url: `sqlite:///PATH` or `postgresql://…`.
        host, port: where to listen; loopback unless TLS or `insecure` is given.
        tls_certificate, tls_key: PEM files.
        insecure: listen elsewhere than on loopback without TLS.
        engines: governed engines.
    """

    model_config = SettingsConfigDict(
        env_prefix="TRIMTAB_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    database_url: str = Field(
        default="sqlite:///var/trimtab.db", pattern=r"^(sqlite|postgresql(\+psycopg)?)://"
    )
    host: str = "127.0.0.1"
    port: int = Field(default=8700, ge=0, le=65535)
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    engines: tuple[EngineSettings, ...] = ()
    ingest: IngestSettings = IngestSettings()
    history: HistorySettings = HistorySettings()
    auth: AuthSettings = AuthSettings()
    governor: GovernorSettings = GovernorSettings()

    @model_validator(mode="after")
    def _engine_ids_are_unique(self) -> Self:
        ids = [engine.id for engine in self.engines]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"engines: id {twice[0]!r} is configured twice")
        return self

    @model_validator(mode="after")
    def _elsewhere_than_loopback_needs_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are set together or not at all")
        if not (is_loopback(self.host) or self.tls_certificate or self.insecure):
            raise ValueError(
                f"host {self.host!r} is not loopback: set tls_certificate and tls_key, or insecure"
            )
        return self

    @property
    def tls(self) -> bool:
        """Whether requests arrive over TLS."""
        return self.tls_certificate is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_settings(file: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings: overrides, then environment, then file, then defaults.

    Raises:
        InvalidInputError: the file is missing or malformed, or a value is out of bounds.
    """
    path = file or _named_file()
    if path is not None:
        _must_be_toml(path)

    class _Reader(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            toml = pydantic_settings.TomlConfigSettingsSource(settings_cls, toml_file=path)
            return init_settings, env_settings, toml

    try:
        return _Reader(**overrides)
    except ValidationError as error:
        where, sentence = one_sentence(error)
        raise InvalidInputError(sentence, field=where) from None
    except pydantic_settings.SettingsError as error:
        raise InvalidInputError(f"settings: {error}") from None


def _named_file() -> Path | None:
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _must_be_toml(path: Path) -> None:
    try:
        tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidInputError(
            f"settings file {path} cannot be read: {error.strerror}", field="config"
        ) from None
    except ValueError as error:
        raise InvalidInputError(f"settings file {path}: {error}", field="config") from None
