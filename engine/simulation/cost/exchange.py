"""Seconds of one all-to-all: low-latency kernels for decode, deduplicating ones for prefill.

Both have the α-β form: a start, a term that grows with the NVLink domains spanned, and bytes over
rates. The busiest rank decides, so callers pass the largest load of any rank as `load`.
"""

import math
from dataclasses import dataclass

from engine.simulation.cost.exchange_fits import LOW_LATENCY, NORMAL
from engine.simulation.cost.topology import Topology
from engine.simulation.cost.volume import (
    distinct_groups,
    num_domains,
    off_domain_share,
    row_bytes,
)

OPS = ("dispatch", "combine")


@dataclass(frozen=True, slots=True)
class ExchangeSetting:
    """Who exchanges what.

    Attributes:
        ranks: M. hidden: d. experts: E. top_k: k.
        fp8_dispatch: dispatch rows are FP8 with scales; combine rows are BF16 always.
        node_limit: domains that a token's experts may lie on (group-limited routing), 0 for any.
    """

    ranks: int
    hidden: int
    experts: int
    top_k: int
    fp8_dispatch: bool = True
    node_limit: int = 0

    def row(self, op: str) -> float:
        """Bytes of one row of `op`."""
        return row_bytes(self.hidden, fp8=self.fp8_dispatch and op == "dispatch")


def low_latency_seconds(
    op: str, tokens: float, setting: ExchangeSetting, where: Topology, *, load: float = 1.0
) -> float:
    """Every one of a token's k rows travels on its own (DeepEP's low-latency kernels).

    Args:
        op: "dispatch" or "combine".
        tokens: of one rank.
        setting: sizes.
        where: rates, and which calibration.
        load: largest rank load over the mean; at most M.
    """
    if setting.ranks == 1:
        return 0.0
    fit = LOW_LATENCY[where.kernels, op]
    moved = tokens * setting.top_k * setting.row(op) * load
    outside = off_domain_share(setting.ranks, where.domain)
    inside_rate = where.domain_rate * fit.domain_efficiency
    outside_rate = where.network_rate * fit.network_efficiency
    doublings = math.log2(num_domains(setting.ranks, where.domain))
    linked = moved * ((1.0 - outside) / inside_rate + outside / outside_rate)
    return fit.start + fit.per_doubling * doublings + linked


def normal_seconds(
    op: str, tokens: float, setting: ExchangeSetting, where: Topology, *, load: float = 1.0
) -> float:
    """A row travels once to a rank, and once to a domain (DeepEP's normal kernels).

    Inside a domain rows are forwarded while others still cross the network: the slower part counts.
    """
    if setting.ranks == 1:
        return 0.0
    fit = NORMAL[where.kernels, op]
    row = setting.row(op)
    inside = min(setting.ranks, where.domain)
    touched = distinct_groups(setting.experts, setting.top_k, setting.ranks)
    per_domain = touched if setting.ranks <= where.domain else min(touched, float(inside))
    rows = tokens * per_domain * (1.0 - 1.0 / inside) * load
    seconds = fit.start + fit.per_hidden * setting.hidden + rows * fit.per_row
    seconds += rows * row / (where.domain_rate * fit.domain_efficiency)
    seconds += tokens * load * row * fit.per_copied_byte
    domains = num_domains(setting.ranks, where.domain)
    if domains == 1:
        return seconds
    crossing = network_bytes(op, tokens, setting, where) * load
    crossed = fit.network_start + crossing / (where.network_rate * fit.network_efficiency)
    return max(seconds, crossed + fit.fill * math.sqrt(crossing))


def network_bytes(op: str, tokens: float, setting: ExchangeSetting, where: Topology) -> float:
    """Bytes that leave a rank's NVLink domain with deduplication by domain."""
    domains = num_domains(setting.ranks, where.domain)
    if domains == 1:
        return 0.0
    touched = distinct_groups(setting.experts, setting.top_k, domains)
    if setting.node_limit:
        touched = min(touched, float(setting.node_limit))
    return tokens * touched * (domains - 1) / domains * setting.row(op)
