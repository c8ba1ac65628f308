"""Multi-window burn-rate tiers (reference: Google SRE workbook; minimum n from the exact binomial).

A tier fires when burn exceeds `burn` over both windows and the long window holds `min_events`.
"""

from enum import StrEnum

from contract.model import ContractModel


class Consumer(StrEnum):
    """Who acts on a tier."""

    GOVERNOR = "governor"
    PAGE = "page"
    TICKET = "ticket"


class BurnTier(ContractModel):
    """One row of the burn table; windows in seconds."""

    name: str
    short_seconds: int
    long_seconds: int
    burn: float
    min_events: int
    consumer: Consumer


BURN_TIERS: tuple[BurnTier, ...] = (
    BurnTier(
        name="act-fast", short_seconds=10, long_seconds=60, burn=14.4, min_events=40,
        consumer=Consumer.GOVERNOR,
    ),
    BurnTier(
        name="act-slow", short_seconds=60, long_seconds=600, burn=3.0, min_events=590,
        consumer=Consumer.GOVERNOR,
    ),
    BurnTier(
        name="page", short_seconds=300, long_seconds=3600, burn=14.4, min_events=40,
        consumer=Consumer.PAGE,
    ),
    BurnTier(
        name="page-slow", short_seconds=1800, long_seconds=21600, burn=6.0, min_events=155,
        consumer=Consumer.PAGE,
    ),
    BurnTier(
        name="ticket", short_seconds=21600, long_seconds=259200, burn=1.0, min_events=0,
        consumer=Consumer.TICKET,
    ),
)  # fmt: skip
