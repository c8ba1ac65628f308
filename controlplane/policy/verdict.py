"""What a verification says: a verdict, and the table of rows that led to it."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Verdict(StrEnum):
    """Failed, and could not tell, are different things."""

    PASS = "pass"  # noqa: S105 (a verdict, not a password)
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class VerifyRow(BaseModel):
    """One line of the table: what was held against what."""

    model_config = ConfigDict(frozen=True)

    name: str
    verdict: Verdict
    before: float | None = None
    after: float | None = None
    limit: float | None = None
    n: int = 0
    message: str = ""
    guard: bool = False


class VerifyResult(BaseModel):
    """The verdict with its table.

    `weak`: before against after on one engine. `final`: more data will not change it.
    """

    model_config = ConfigDict(frozen=True)

    verdict: Verdict
    message: str
    rows: tuple[VerifyRow, ...]
    weak: bool = True
    final: bool = False
