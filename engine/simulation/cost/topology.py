"""Topologies: cards, links and their rates per direction.

NVLink is quoted by vendors in both directions together; here every rate is one direction (900 GB/s
of H100 is 450). Sources: NVIDIA data sheets of HGX H100, H200, B200 and GB200 NVL72 (memory, dense
rates, NVLink); arXiv 2412.19437 § 3.3 (H800: NVLink 160 GB/s reached of 200, InfiniBand 50).
`cpu-gloo` is assumed, for the engine's own ranks on one host. Every rate below is a data-sheet
value; what kernels reach of it is fitted in `exchange_fits`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from engine.errors import BadRequestError

GB = 1e9

LINKS: Mapping[str, float] = MappingProxyType({"hdr": 25 * GB, "ndr": 50 * GB, "xdr": 100 * GB})
"""Network rate of one card and direction, bytes/s: one NIC a card."""


@dataclass(frozen=True, slots=True)
class Topology:
    """One kind of cluster.

    Attributes:
        domain: cards of one NVLink domain. node: cards of one host.
        domain_rate, network_rate: bytes/s of one card in one direction.
        memory: HBM bytes of a card. memory_rate: bytes/s.
        fp8_rate, bf16_rate: dense floating-point operations/s.
        kernels: which all-to-all calibration it uses; see `exchange_fits`.
        link: name of the network link, "" without a network.
    """

    name: str
    domain: int
    node: int
    domain_rate: float
    network_rate: float
    memory: float
    memory_rate: float
    fp8_rate: float
    bf16_rate: float
    kernels: str = "nvlink"
    link: str = "ndr"

    @property
    def rate_ratio(self) -> float:
        """How much slower a byte leaves the NVLink domain than it moves inside."""
        return self.domain_rate / self.network_rate


_H100 = Topology("hgx-h100", 8, 8, 450 * GB, 50 * GB, 80 * GB, 3.35e12, 1.979e15, 0.989e15)

TOPOLOGIES: Mapping[str, Topology] = MappingProxyType(
    {
        each.name: each
        for each in (
            _H100,
            replace(_H100, name="hgx-h800", domain_rate=200 * GB, kernels="rdma"),
            replace(_H100, name="hgx-h200", memory=141 * GB, memory_rate=4.8e12),
            Topology("hgx-b200", 8, 8, 900 * GB, 50 * GB, 180 * GB, 7.7e12, 4.5e15, 2.25e15),
            Topology("nvl72", 72, 4, 900 * GB, 50 * GB, 186 * GB, 8.0e12, 5.0e15, 2.5e15),
            Topology("cpu-gloo", 64, 64, 2 * GB, 1 * GB, 64 * GB, 20 * GB, 2e11, 2e11, "gloo", ""),
        )
    }
)


def topology(name: str, *, link: str | None = None) -> Topology:
    """A topology by name, with another network link when `link` is given.

    Raises:
        BadRequestError: there is no such topology or link.
    """
    found = TOPOLOGIES.get(name)
    if found is None:
        raise BadRequestError(
            f"topology {name!r} is unknown; known: {', '.join(TOPOLOGIES)}",
            field="topology", value=name,
        )  # fmt: skip
    if link is None:
        return found
    if link not in LINKS:
        raise BadRequestError(
            f"link {link!r} is unknown; known: {', '.join(LINKS)}", field="link", value=link
        )
    return replace(found, network_rate=LINKS[link], link=link)
