"""Constants of the all-to-all kernels. `trimtab bench cost-model` refits them and compares.

Fitted, by relative least squares, on a part of the published and recorded tables; the benchmark
reports the error on the rest. Families: `rdma`, DeepEP V1 on H800 where even neighbours talk over
RDMA (published tables); `nvlink`, DeepEP on H100 (recorded tables, 20 and 24 SMs). `gloo` is
assumed: TCP on one host. An efficiency is what the formula needs to meet the measurement: above 1
where bytes that a kernel counts do not cross the link (a rank's rows to itself).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class LowLatencyFit:
    """start + per_doubling · log2(domains) + bytes ÷ (data-sheet rate × efficiency).

    Attributes:
        start, per_doubling: seconds; the latter at every doubling of the NVLink domains.
        domain_efficiency, network_efficiency: of the data-sheet rate of the link.
        source: "fitted" or "assumed".
    """

    start: float
    per_doubling: float
    domain_efficiency: float
    network_efficiency: float
    source: str = "fitted"


@dataclass(frozen=True, slots=True)
class NormalFit:
    """Inside a domain, and across the network; see `exchange.normal_seconds`.

    Attributes:
        start, per_hidden, per_row, per_copied_byte: seconds; a call, a value of d, a row sent to
            another rank, a byte of the rank's own rows.
        domain_efficiency, network_efficiency: of the data-sheet rate of the link.
        network_start, fill: seconds, and seconds per √byte while the pipeline fills.
        source: "fitted" or "assumed".
    """

    start: float
    per_hidden: float
    per_row: float
    per_copied_byte: float
    domain_efficiency: float
    network_efficiency: float
    network_start: float
    fill: float = 0.0
    source: str = "fitted"


LOW_LATENCY: Mapping[tuple[str, str], LowLatencyFit] = MappingProxyType(
    {
        ("rdma", "dispatch"): LowLatencyFit(0.0, 1.167e-05, 0.4915, 1.010),
        ("rdma", "combine"): LowLatencyFit(0.0, 3.750e-05, 0.6439, 1.299),
        ("nvlink", "dispatch"): LowLatencyFit(1.166e-05, 6.258e-06, 0.6071, 1.038),
        ("nvlink", "combine"): LowLatencyFit(1.134e-05, 6.556e-06, 0.5450, 1.014),
        ("gloo", "dispatch"): LowLatencyFit(300e-6, 0.0, 0.5, 0.5, "assumed"),
        ("gloo", "combine"): LowLatencyFit(300e-6, 0.0, 0.5, 0.5, "assumed"),
    }
)

NORMAL: Mapping[tuple[str, str], NormalFit] = MappingProxyType(
    {
        ("nvlink", "dispatch"): NormalFit(
            2.484e-05, 1.197e-09, 5.263e-09, 2.890e-12, 1.144, 0.8345, 2.311e-05, 1.930e-08
        ),
        ("nvlink", "combine"): NormalFit(
            2.446e-05, 3.819e-09, 1.824e-09, 3.095e-12, 0.8351, 0.6591, 4.546e-05, 3.239e-08
        ),
        ("rdma", "dispatch"): NormalFit(
            2.484e-05, 1.197e-09, 5.263e-09, 2.890e-12, 1.144, 1.032, 0.0
        ),
        ("rdma", "combine"): NormalFit(
            2.446e-05, 3.819e-09, 1.824e-09, 3.095e-12, 0.8351, 1.020, 0.0
        ),
        ("gloo", "dispatch"): NormalFit(300e-6, 0.0, 0.0, 0.0, 0.5, 0.5, 300e-6, 0.0, "assumed"),
        ("gloo", "combine"): NormalFit(300e-6, 0.0, 0.0, 0.0, 0.5, 0.5, 300e-6, 0.0, "assumed"),
    }
)
