"""What a refused setting says."""

from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from contract.settings_error import refused


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ranks: int = Field(default=1, ge=1)
    role: Literal["a", "b"] = "a"
    token: SecretStr = SecretStr("")

    @model_validator(mode="after")
    def _seven_is_refused(self) -> "_Table":
        if self.ranks == 7:
            raise ValueError("seven ranks are too many")
        return self


class _Settings(BaseModel):
    table: _Table


@pytest.mark.parametrize(
    ("values", "where", "sentence"),
    [
        (
            {"ranks": 0}, "table.ranks",
            "setting table.ranks: it should be greater than or equal to 1, not 0",
        ),
        ({"rnks": 3}, "table.rnks", "setting table.rnks does not exist; did you mean ranks?"),
        ({"zzz": 3}, "table.zzz", "setting table.zzz does not exist"),
        ({"role": "c"}, "table.role", "setting table.role: it should be 'a' or 'b', not 'c'"),
        ({"token": 1234}, "table.token", "setting table.token: it should be a valid string"),
        ({"ranks": 7}, "table", "setting table: seven ranks are too many"),
    ],
)  # fmt: skip
def test_a_sentence_names_the_setting_and_no_secret(
    values: dict[str, object], where: str, sentence: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        _Settings.model_validate({"table": values})
    said = refused(caught.value, _Settings)
    assert (said.field, said.detail) == (where, sentence)


def test_what_concerns_all_settings_names_none() -> None:
    with pytest.raises(ValidationError) as caught:
        _Table(ranks=7)
    said = refused(caught.value, _Table)
    assert (said.field, said.detail) == ("settings", "seven ranks are too many")
