"""Settings of an engine: flags, `TRIMTAB_ENGINE_*`, a TOML file, defaults.

The environment wins over the file: `TRIMTAB_ENGINE_PORT=8101`,
`TRIMTAB_ENGINE_RUNTIME__CHUNK_SIZE=256`. The file is `--config`, else `TRIMTAB_ENGINE_CONFIG`, else
`trimtab-engine.toml` in the working directory if it is there.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings

from contract.listening import Listening, is_loopback
from contract.runtime_config import RuntimeConfig
from contract.settings_error import SettingsError
from contract.settings_reader import ENGINE_SOURCE, settings_config
from contract.settings_reader import read_settings as read_from
from contract.written import HTTP_URL, Written
from engine.config import REFERENCE_CHECKPOINT, EngineConfig
from engine.errors import BadRequestError
from engine.server.tokens import TokenRecord

Name = Annotated[
    str,
    Field(min_length=1, max_length=128),
    Written(r"^[A-Za-z0-9._:-]+$", "have only A-Z a-z 0-9 . _ : -"),
]
Url = Annotated[str, HTTP_URL]


class EngineSettings(Listening, BaseSettings):
    """Everything that an engine is started with; see `EngineConfig` for what is not here.

    Attributes:
        port: where to listen; 0 takes a free one.
        token_file: made by `trimtab token create --engine-tokens FILE`.
        tokens: more tokens, hashed, beside the file.
        open_inference: `/v1` without a token.
        open_metrics: `/metrics` without a token; None means on loopback only.
        max_body_bytes: a longer request body is refused.
        runtime: knobs of a first start; afterwards the stored config wins.
        log_level: level of the engine's own log, on stderr.
    """

    model_config = settings_config(ENGINE_SOURCE)

    engine_id: Name = "engine-0"
    group: Name = "group-0"
    role: Literal["mixed", "prefill", "decode"] = "mixed"
    checkpoint: Path = REFERENCE_CHECKPOINT
    ranks: int = Field(default=2, ge=1, le=1024)
    device: Literal["cpu", "cuda"] = "cpu"
    collectives: Literal["sockets", "distributed"] = "sockets"
    dtype: Literal["float32", "bfloat16"] = "float32"
    context_tokens: int = Field(default=2048, ge=16, le=1 << 20)
    kv_blocks: int = Field(default=1024, ge=1, le=1 << 24)
    block_tokens: int = Field(default=16, ge=1, le=1024)
    queue_limit: int = Field(default=256, ge=1, le=1 << 20)
    state_dir: Path = Path("var/engine")
    frame_seconds: float = Field(default=1.0, ge=0.1, le=3600)
    period_seconds: float = Field(default=10.0, ge=0.1, le=3600)
    whatif_every: int = Field(default=16, ge=1, le=1 << 20)
    watchdog_seconds: float = Field(default=4.0, gt=0, le=3600)
    telemetry_url: Url | None = None
    telemetry_token: SecretStr | None = None
    frame_buffer: int = Field(default=900, ge=1, le=1 << 20)
    otlp_endpoint: Url | None = None
    recording: bool = True
    seed: int = Field(default=0, ge=0, lt=2**31)
    faults: frozenset[str] = frozenset()

    port: int = Field(default=8100, ge=0, le=65535)
    token_file: Path | None = None
    tokens: tuple[TokenRecord, ...] = ()
    open_inference: bool = False
    open_metrics: bool | None = None
    max_body_bytes: int = Field(default=8 << 20, ge=1024, le=1 << 30)
    runtime: RuntimeConfig = RuntimeConfig()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _one_sequence_fits_the_cache(self) -> Self:
        capacity = self.kv_blocks * self.block_tokens
        if self.context_tokens > capacity:
            raise ValueError(
                f"context_tokens {self.context_tokens} is over kv_blocks × block_tokens {capacity}"
            )
        return self

    @property
    def url(self) -> str:
        """Base URL, with the port as it was set."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def metrics_are_open(self) -> bool:
        """Whether `/metrics` needs no token."""
        return is_loopback(self.host) if self.open_metrics is None else self.open_metrics

    def engine_config(self) -> EngineConfig:
        """The core's part."""
        names = EngineConfig.__dataclass_fields__.keys() - {"telemetry_token"}
        token = self.telemetry_token
        return EngineConfig(
            **{name: getattr(self, name) for name in names},
            telemetry_token=None if token is None else token.get_secret_value(),
        )


def read_settings(file: Path | None = None, **flags: Any) -> EngineSettings:
    """Read the settings: flags, then environment, then file, then defaults.

    Raises:
        BadRequestError: a file or variable is unknown or malformed, or a value is out of bounds.
    """
    try:
        return read_from(EngineSettings, ENGINE_SOURCE, file, **flags)
    except SettingsError as error:
        raise BadRequestError(error.detail, field=error.field, bound=error.bound) from None
