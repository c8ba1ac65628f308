"""Names of settings, and the nearest to a misspelt one."""

from pydantic import BaseModel

from contract.settings_names import is_variable, nearest, settings_at, variables


class _Row(BaseModel):
    url: str = ""


class _Table(BaseModel):
    frames: int = 0
    names: dict[str, str] = {}


class _All(BaseModel):
    port: int = 0
    table: _Table = _Table()
    rows: tuple[_Row, ...] = ()


KNOWN = tuple(variables(_All, "X_"))


def test_every_setting_has_a_variable_tables_too() -> None:
    assert [name for name, _ in KNOWN] == [
        "X_PORT", "X_TABLE", "X_TABLE__FRAMES", "X_TABLE__NAMES", "X_ROWS",
    ]  # fmt: skip


def test_below_a_collection_any_name_goes_and_below_a_number_none() -> None:
    assert is_variable("X_TABLE__NAMES__ANNA", KNOWN)
    assert is_variable("X_ROWS__0__URL", KNOWN)
    assert not is_variable("X_PORT__A", KNOWN)
    assert not is_variable("X_TABLE__FRAME", KNOWN)


def test_the_settings_of_a_table_and_of_a_row_are_found() -> None:
    assert settings_at(_All, ()) == ("port", "table", "rows")
    assert settings_at(_All, ("table",)) == ("frames", "names")
    assert settings_at(_All, ("rows", 3)) == ("url",)
    assert settings_at(_All, ("port",)) == ()


def test_what_is_like_nothing_has_no_nearest() -> None:
    assert nearest("prot", ("port", "host")) == "port"
    assert nearest("zzzz", ("port", "host")) is None
