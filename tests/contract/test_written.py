from typing import Annotated

import pytest
from pydantic import BaseModel, ValidationError

from contract.settings_error import refused
from contract.written import HTTP_URL, Written


class _Settings(BaseModel):
    name: Annotated[str, Written(r"^[a-z]+$", "have small letters only")] = "a"
    url: Annotated[str, HTTP_URL] | None = None


@pytest.mark.parametrize("value", ["A", "", "a b", "a\n"])
def test_text_of_another_form_is_refused_in_words_without_its_value(value):
    with pytest.raises(ValidationError) as caught:
        _Settings(name=value)
    assert (
        refused(caught.value, _Settings).detail == "setting name: it should have small letters only"
    )


def test_text_of_the_form_and_none_pass():
    assert _Settings(name="ab", url=None).name == "ab"
    assert _Settings(url="https://a:1/x").url == "https://a:1/x"


def test_a_published_schema_has_the_pattern():
    assert _Settings.model_json_schema()["properties"]["name"]["pattern"] == "^[a-z]+$"
