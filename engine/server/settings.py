"""Settings of an engine: flags, `TRIMTAB_ENGINE_*`, a TOML file, defaults. The only reader.

The environment wins over the file: `TRIMTAB_ENGINE_PORT=8101`,
`TRIMTAB_ENGINE_RUNTIME__CHUNK_SIZE=256`. The file is `--config`, else `TRIMTAB_ENGINE_CONFIG`, else
`trimtab-engine.toml` in the working directory if it is there.
"""

import ipaddress
import os
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

import pydantic_settings
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from contract.runtime_config import RuntimeConfig
from contract.settings_error import one_sentence
from engine.config import REFERENCE_CHECKPOINT, EngineConfig
from engine.errors import BadRequestError
from engine.server.tokens import TokenRecord

ENV_PREFIX = "TRIMTAB_ENGINE_"
FILE_VARIABLE = ENV_PREFIX + "CONFIG"
DEFAULT_FILE = Path("trimtab-engine.toml")

_NAME = r"^[A-Za-z0-9._:-]+$"


class EngineSettings(BaseSettings):
    """Everything that an engine is started with; see `EngineConfig` for what is not here.

    Attributes:
        host, port: where to listen; port 0 takes a free one. Loopback unless TLS or `insecure`.
        tls_certificate, tls_key: PEM files.
        insecure: listen elsewhere than on loopback without TLS.
        token_file: made by `trimtab token create --engine-tokens FILE`.
        tokens: more tokens, hashed, beside the file.
        open_inference: `/v1` without a token.
        open_metrics: `/metrics` without a token; None means on loopback only.
        max_body_bytes: a longer request body is refused.
        runtime: knobs of a first start; afterwards the stored config wins.
        log_level: of the engine's own log, on stderr.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    engine_id: str = Field(default="engine-0", min_length=1, max_length=128, pattern=_NAME)
    group: str = Field(default="group-0", min_length=1, max_length=128, pattern=_NAME)
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
    telemetry_url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    telemetry_token: SecretStr | None = None
    frame_buffer: int = Field(default=900, ge=1, le=1 << 20)
    otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    recording: bool = True
    seed: int = Field(default=0, ge=0, lt=2**31)
    faults: frozenset[str] = frozenset()

    host: str = "127.0.0.1"
    port: int = Field(default=8100, ge=0, le=65535)
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    token_file: Path | None = None
    tokens: tuple[TokenRecord, ...] = ()
    open_inference: bool = False
    open_metrics: bool | None = None
    max_body_bytes: int = Field(default=8 << 20, ge=1024, le=1 << 30)
    runtime: RuntimeConfig = RuntimeConfig()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _elsewhere_than_loopback_needs_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are set together or not at all")
        if not (is_loopback(self.host) or self.tls_certificate or self.insecure):
            raise ValueError(
                f"host {self.host!r} is not loopback: set tls_certificate and tls_key, or insecure"
            )
        return self

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
        return f"{'http' if self.tls_certificate is None else 'https'}://{host}:{self.port}"

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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_settings(file: Path | None = None, **flags: Any) -> EngineSettings:
    """Read the settings: flags, then environment, then file, then defaults.

    Raises:
        BadRequestError: a file or variable is unknown or malformed, or a value is out of bounds.
    """
    path = file or _named_file()
    if path is not None:
        _must_be_toml(path)
    _refuse_unknown_variables()

    class _Reader(EngineSettings):
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
        return _Reader(**flags)
    except ValidationError as error:
        where, sentence = one_sentence(error)
        raise BadRequestError(sentence, field=where) from None
    except pydantic_settings.SettingsError as error:
        raise BadRequestError(f"settings: {error}", field="settings") from None


def _named_file() -> Path | None:
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _must_be_toml(path: Path) -> None:
    try:
        tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadRequestError(
            f"settings file {path} cannot be read: {error.strerror}", field="config"
        ) from None
    except ValueError as error:
        raise BadRequestError(f"settings file {path}: {error}", field="config") from None


def _refuse_unknown_variables() -> None:
    known = {name.upper() for name in EngineSettings.model_fields}
    for variable in sorted(os.environ):
        name = variable.removeprefix(ENV_PREFIX).split("__")[0].upper()
        is_ours = variable.startswith(ENV_PREFIX) and variable != FILE_VARIABLE
        if is_ours and name not in known:
            raise BadRequestError(
                f"environment variable {variable} is not a setting of the engine",
                field=variable, bound=sorted(known),
            )  # fmt: skip
