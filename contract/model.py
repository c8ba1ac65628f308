"""The base of every contract body: immutable, and closed against unknown fields."""

from pydantic import BaseModel, ConfigDict


class ContractModel(BaseModel):
    """A frozen body that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_enum_values=False)
