"""The reader of settings of both planes: arguments, variables, a TOML file, defaults.

A variable with the program's prefix that is no setting is refused, with the nearest that is: a
misspelt bound must not be a bound that silently does not hold.
"""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as MalformedError

from contract.settings_error import SettingsError, did_you_mean, refused
from contract.settings_names import NESTING, is_variable, variables

CONTROL_PREFIX = "TRIMTAB_"
ENGINE_PREFIX = "TRIMTAB_ENGINE_"
TOKEN_VARIABLE = "TRIMTAB_TOKEN"  # noqa: S105 - a name
INFERENCE_TOKEN_VARIABLE = "TRIMTAB_INFERENCE_TOKEN"  # noqa: S105 - a name
CLIENT_VARIABLES = (TOKEN_VARIABLE, INFERENCE_TOKEN_VARIABLE)
"""What the commands that only call a plane read: `backtest`, `replay`."""

Model = TypeVar("Model", bound=BaseSettings)


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Where a program's settings come from.

    Attributes:
        prefix: of its variables.
        default_file: read from the working directory, if it is there.
        elsewhere: variables with the prefix that other programs read; a name that ends in `_`
            stands for all that begin so.
    """

    prefix: str
    default_file: Path
    elsewhere: tuple[str, ...] = ()

    @property
    def file_variable(self) -> str:
        """The variable that names the file."""
        return self.prefix + "CONFIG"


CONTROL_SOURCE = SettingsSource(
    CONTROL_PREFIX, Path("trimtab.toml"), elsewhere=(ENGINE_PREFIX, *CLIENT_VARIABLES)
)
ENGINE_SOURCE = SettingsSource(ENGINE_PREFIX, Path("trimtab-engine.toml"))


def settings_config(source: SettingsSource) -> SettingsConfigDict:
    """The `model_config` of the settings that come from `source`."""
    return SettingsConfigDict(
        env_prefix=source.prefix, env_nested_delimiter=NESTING, extra="forbid", frozen=True
    )


def read_settings(
    model: type[Model], source: SettingsSource, file: Path | None = None, **arguments: Any
) -> Model:
    """The settings of a program.

    Args:
        model: what they are.
        source: where they come from.
        file: instead of the one that the environment names or the working directory has.
        **arguments: win over everything else.

    Raises:
        SettingsError: a file is missing or malformed, a name is unknown, a value out of bounds.
    """
    path = file or _named_file(source)
    if path is not None:
        _must_be_toml(path)
    _refuse_unknown_variables(model, source)

    class _Reader(model):  # type: ignore[valid-type, misc]
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)

    try:
        read: Model = _Reader(**arguments)
    except ValidationError as error:
        raise refused(error, model) from None
    except MalformedError as error:
        raise SettingsError(f"settings: {error}", field="settings") from None
    return read


def _named_file(source: SettingsSource) -> Path | None:
    named = os.environ.get(source.file_variable)
    if named:
        return Path(named)
    return source.default_file if source.default_file.exists() else None


def _must_be_toml(path: Path) -> None:
    try:
        tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(
            f"settings file {path} cannot be read: {error.strerror}", field="config"
        ) from None
    except ValueError as error:
        raise SettingsError(f"settings file {path}: {error}", field="config") from None


def _refuse_unknown_variables(model: type[BaseSettings], source: SettingsSource) -> None:
    known = (*variables(model, source.prefix), (source.file_variable, False))
    names = tuple(name for name, _ in known)
    others = tuple(name + "…" * name.endswith("_") for name in source.elsewhere)
    for variable in sorted(os.environ):
        name = variable.upper()
        if not name.startswith(source.prefix) or _is_elsewhere(name, source):
            continue
        if not is_variable(name, known):
            near = did_you_mean(name, names + others)
            raise SettingsError(
                f"environment variable {variable} is not a setting{near}",
                field=variable, bound=sorted(names),
            )  # fmt: skip


def _is_elsewhere(name: str, source: SettingsSource) -> bool:
    return any(
        name.startswith(each) if each.endswith("_") else name == each for each in source.elsewhere
    )
