"""Text of a given form, refused in words: nobody should have to read a regular expression."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Written:
    """For `Annotated[str, Written(pattern, words)]`: as `Field(pattern=…)` is, schema included.

    Attributes:
        pattern: the whole text matches it.
        words: what the text should be, the end of a sentence that begins "it should".
    """

    pattern: str
    words: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """What pydantic asks: the text itself, then whether it has the form."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """What pydantic asks: the pattern is part of a published schema."""
        return {**handler(schema), "pattern": self.pattern}

    def _checked(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"it should {self.words}")
        return text


HTTP_URL = Written(r"^https?://[^\s]+$", "begin with http:// or https:// and have no space")
