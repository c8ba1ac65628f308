"""`docs/settings.md`: every setting of both planes, from the settings models themselves.

Names, defaults and bounds are the models'; what a setting means is its line under `Attributes:` in
a docstring of its model. `make generate` writes the document.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, get_args

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from contract.settings_names import NESTING
from contract.settings_reader import CONTROL_SOURCE, ENGINE_SOURCE, SettingsSource
from controlplane.settings import Settings
from engine.config import EngineConfig
from engine.server.settings import EngineSettings

ROOT = Path(__file__).parents[1]
_ATTRIBUTE = re.compile(r"^(\w+(?:, \w+)*): (.*)$")
_BOUNDS = {
    "minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}",
    "maxLength": "at most {} characters", "pattern": "like `{}`",
}  # fmt: skip
_HEAD = ("| setting | variable | default | bounds | meaning |", "|---|---|---|---|---|")
_INTRODUCTION = f"""# Settings

Every setting of the control plane and of an engine, as the programs know them (`make generate`
writes this page). Each comes from the first of: a flag of the command, an environment variable, a
TOML file, its default. A name that is not listed here is refused, with the nearest one that is.

- **File.** `--config FILE`, else the one that `{CONTROL_SOURCE.file_variable}` names, else
  `{CONTROL_SOURCE.default_file}` in the working directory if it is there: every command that takes
  `--config` reads the same one. An engine has `{ENGINE_SOURCE.file_variable}` and
  `{ENGINE_SOURCE.default_file}`.
- **Variables.** The prefix, then the name in capitals; a table and its setting are joined by two
  underscores: `[history] ring_frames` is `TRIMTAB_HISTORY__RING_FRAMES`. A list or a map is JSON.

## PostgreSQL

SQLite needs nothing and serves one control plane. For several, or for a fleet whose history is
large, make a database of PostgreSQL for a role that may log in, and name it:

```
createdb --owner trimtab trimtab
TRIMTAB_DATABASE_URL=postgresql://trimtab:secret@127.0.0.1:5432/trimtab trimtab serve
```

or in the file:

```toml
database_url = "postgresql://trimtab:secret@127.0.0.1:5432/trimtab"
```

The driver comes with Trimtab. `trimtab serve` makes the tables and brings them up to date
(`--no-upgrade` leaves that to `trimtab db upgrade`). What is promised about either database:
[durability.md](durability.md).
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: its name in its table, its variable, and the rest as the page shows it."""

    name: str
    variable: str
    default: str
    bounds: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the TOML file; the first one of a plane has no name."""

    heading: str
    settings: tuple[Setting, ...]


def markdown() -> str:
    """The document."""
    lines = [_INTRODUCTION]
    for plane, model, source in (
        ("Control plane", Settings, CONTROL_SOURCE), ("Engine", EngineSettings, ENGINE_SOURCE),
    ):  # fmt: skip
        lines.append(f"## {plane}\n")
        for table in tables(model, source):
            if table.heading:
                lines.append(f"### `{table.heading}`\n")
            lines += _HEAD
            lines += [
                f"| `{each.name}` | {each.variable} | {each.default} | {each.bounds} |"
                f" {each.meaning} |"
                for each in table.settings
            ]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def tables(model: type[BaseModel], source: SettingsSource) -> Iterator[Table]:
    """The plane's own settings, then each of its tables."""
    rows: list[Setting] = []
    below: list[Table] = []
    meanings = _meanings(model)
    for name, field in model.model_fields.items():
        table, is_list = _table(field)
        variable = source.prefix + name.upper()
        if table is None or is_list:
            rows.append(_setting(model, name, field, f"`{variable}`", meanings))
        if table is not None:
            heading = f"[[{name}]]" if is_list else f"[{name}]"
            prefix = None if is_list else variable + NESTING
            below.append(Table(heading, tuple(_of_table(table, prefix))))
    yield Table("", tuple(rows))
    yield from below


def _of_table(table: type[BaseModel], prefix: str | None) -> Iterator[Setting]:
    meanings = _meanings(table)
    for name, field in table.model_fields.items():
        variable = "–" if prefix is None else f"`{prefix}{name.upper()}`"
        yield _setting(table, name, field, variable, meanings)


def _table(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The model of a table, or of a list of tables; and whether it is a list."""
    if _is_model(field.annotation):
        return field.annotation, False
    return next((each for each in get_args(field.annotation) if _is_model(each)), None), True


def _is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _setting(
    model: type[BaseModel],
    name: str,
    field: FieldInfo,
    variable: str,
    meanings: Mapping[str, str],
) -> Setting:
    schema = model.model_json_schema()
    told = _flat(schema["properties"][name], schema.get("$defs", {}))
    return Setting(name, variable, _default(field), _cell(_bounds(told)), _cell(meanings[name]))


def _flat(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A property with what it refers to; of an optional one, the part that is not null."""
    found = dict(node)
    for part in (*node.get("allOf", ()), *node.get("anyOf", ())):
        if part.get("type") != "null":
            found |= _flat(part, definitions)
    if "$ref" in node:
        found |= _flat(definitions[node["$ref"].rsplit("/", 1)[-1]], definitions)
    return found


def _bounds(told: Mapping[str, Any]) -> str:
    if "enum" in told:
        return " or ".join(f"`{each}`" for each in told["enum"])
    if told.get("type") == "boolean":
        return "`true` or `false`"
    said = ["not empty"] if told.get("minLength") == 1 else []
    return ", ".join(
        said + [form.format(_number(told[name])) for name, form in _BOUNDS.items() if name in told]
    )


def _number(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "needed"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, Path) and value.is_absolute():
        value = value.relative_to(ROOT)
    if value is None or value == "":
        return "none"
    plain = to_jsonable_python(value)
    return _cell(f"`{plain if isinstance(plain, str) else json.dumps(plain)}`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """What the docstrings of a model and its bases say of each setting."""
    documents: list[type] = [EngineConfig] if model is EngineSettings else []
    documents += [each for each in reversed(model.__mro__) if each.__doc__]
    found: dict[str, str] = {}
    for each in documents:
        found |= _attributes(inspect.getdoc(each) or "")
    return found


def _attributes(document: str) -> dict[str, str]:
    """The lines under `Attributes:`; several names may share one."""
    _, _, below = document.partition("Attributes:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in below.splitlines():
        if not line.startswith("    "):
            break
        text = line.strip()
        begun = None if line.startswith("     ") else _ATTRIBUTE.match(text)
        if begun is not None:
            names = begun.group(1).split(", ")
            text = begun.group(2)
        for name in names:
            found[name] = f"{found[name]} {text}" if begun is None else text
    return found
