"""Settings of the control plane: the environment (`TRIMTAB_*`) and a TOML file.

The environment wins over the file: `TRIMTAB_PORT=8701`, `TRIMTAB_HISTORY__RING_FRAMES=600`. The
file is `--config`, else `TRIMTAB_CONFIG`, else `trimtab.toml` in the working directory if there.
"""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings

from contract.listening import Listening
from contract.settings_error import SettingsError
from contract.settings_reader import CONTROL_SOURCE, read_settings, settings_config
from contract.written import Written
from controlplane.engine_address import EngineId, EngineToken, EngineUrl
from controlplane.engine_kind import EngineKind
from controlplane.errors import InvalidInputError

DatabaseUrl = Annotated[
    str,
    Written(
        r"^(sqlite|postgresql(\+psycopg)?)://.*$",
        "begin with sqlite:/// and a path, or with postgresql:// and a host",
    ),
]


class Section(BaseModel):
    """A table of the TOML file; a name that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EngineSettings(Section):
    """One engine. Engines are configured here, never learnt from telemetry.

    Attributes:
        id: the id that its frames must carry.
        kind: `trimtab` is governed; `vllm` and `sglang` are observe-only, read by their metrics.
        url: base URL of its admin API, e.g. `http://127.0.0.1:8100`; of an observe-only engine
            the server whose `/metrics` is read.
        admin_token: bearer token that the control plane sends to it.
        telemetry_token: token that the engine sends with its frames; stored hashed at start.
        group: EP group, for canaries; empty takes the frame's.
    """

    id: EngineId
    kind: EngineKind = EngineKind.TRIMTAB
    url: EngineUrl
    admin_token: EngineToken = SecretStr("")
    telemetry_token: SecretStr = SecretStr("")
    group: str = ""

    @model_validator(mode="after")
    def _observed_engines_send_nothing(self) -> Self:
        if self.kind.is_observed and self.telemetry_token.get_secret_value():
            raise ValueError(
                f"telemetry_token of {self.id!r} is of no use: an engine of kind {self.kind} is "
                "read by its metrics and sends no frames; leave it out"
            )
        return self


class IngestSettings(Section):
    """Bounds of the receiver.

    Attributes:
        max_body_bytes: largest request as sent, else 413.
        max_inflated_bytes: largest request after decompression, else 413.
        queue_frames: frames that may wait for the writer, requests for a decoder, else 429.
        batch_frames: frames of one transaction at most.
        gather_seconds: how often the connections of many engines are read together, and how long
            after some requests were decoded the next ones gather; 0 for neither.
        decode_threads: threads that decode off the event loop.
    """

    max_body_bytes: int = Field(default=20 * 1024 * 1024, ge=1024, le=256 * 1024 * 1024)
    max_inflated_bytes: int = Field(default=64 * 1024 * 1024, ge=1024, le=1024 * 1024 * 1024)
    queue_frames: int = Field(default=512, ge=1, le=65536)
    batch_frames: int = Field(default=256, ge=1, le=4096)
    gather_seconds: float = Field(default=0.5, ge=0, le=1)
    decode_threads: int = Field(default=2, ge=1, le=32)


class HistorySettings(Section):
    """How long each tier is kept, and how much is held in memory.

    Attributes:
        ring_frames: 1 s frames kept for each engine; a slot not yet sealed is never overwritten.
        seal_grace_seconds: how long after its end a minute waits for late frames.
        chunk_hours: how long sealed minutes of frames are kept, lossless.
        rollup_10s_hours: how long sums of 10 s are kept.
        rollup_1m_days: how long sums of a minute are kept.
        rollup_1h_days: how long sums of an hour are kept.
        cache_bytes: frames held in memory as they came, all engines together.
    """

    ring_frames: int = Field(default=900, ge=60, le=86400)
    seal_grace_seconds: float = Field(default=5.0, ge=0, le=600)
    chunk_hours: int = Field(default=24, ge=1, le=24 * 366)
    rollup_10s_hours: int = Field(default=24, ge=1, le=24 * 366)
    rollup_1m_days: int = Field(default=14, ge=1, le=3660)
    rollup_1h_days: int = Field(default=366, ge=1, le=3660)
    cache_bytes: int = Field(default=32 * 1024 * 1024, ge=0, le=64 * 1024**3)


class ScrapeSettings(Section):
    """How observe-only engines are read.

    Attributes:
        interval_seconds: from scrape to scrape; one frame is stored for each.
        timeout_seconds: how long one whole answer may take.
        max_body_bytes: largest answer that is read.
    """

    interval_seconds: float = Field(default=5.0, ge=1, le=30)
    timeout_seconds: float = Field(default=3.0, gt=0, le=30)
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024)


class AuthSettings(Section):
    """Tokens known from the start, and lifetimes of what people log in with.

    Attributes:
        admin_token: a token of role admin, stored hashed at start, when set.
        alertmanager_token: the token of Alertmanager's webhook, stored hashed at start, when set.
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

    def named_policies(self) -> dict[str, str]:
        """Dotted name of each setting that names a policy → that policy."""
        by_alert = {f"governor.alerts.{alert}": name for alert, name in self.alerts.items() if name}
        return {"governor.policy": self.policy, **by_alert}


class Settings(Listening, BaseSettings):
    """All settings of the control plane.

    Attributes:
        database_url: `sqlite:///PATH` or `postgresql://…`.
        port: where to listen; 0 takes a free one.
        engines: governed engines.
    """

    model_config = settings_config(CONTROL_SOURCE)

    database_url: DatabaseUrl = "sqlite:///var/trimtab.db"
    port: int = Field(default=8700, ge=0, le=65535)
    engines: tuple[EngineSettings, ...] = ()
    ingest: IngestSettings = IngestSettings()
    history: HistorySettings = HistorySettings()
    scrape: ScrapeSettings = ScrapeSettings()
    auth: AuthSettings = AuthSettings()
    governor: GovernorSettings = GovernorSettings()

    @model_validator(mode="after")
    def _engine_ids_are_unique(self) -> Self:
        ids = [engine.id for engine in self.engines]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"engines: id {twice[0]!r} is configured twice")
        return self


def load_settings(file: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings: overrides, then environment, then file, then defaults.

    Raises:
        InvalidInputError: a file is missing or malformed, a name unknown, a value out of bounds.
    """
    try:
        return read_settings(Settings, CONTROL_SOURCE, file, **overrides)
    except SettingsError as error:
        raise InvalidInputError(error.detail, field=error.field, bound=error.bound) from None
