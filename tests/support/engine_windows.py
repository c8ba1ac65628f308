"""Windows for tests of the pure modules: any array by name, everything else healthy and plain."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from contract import CONTRACT_VERSION
from contract.frame import HISTOGRAM_BOUNDS, FrameHeader
from contract.runtime_config import RuntimeConfig
from controlplane.history.window import EngineWindow

START = 1_700_000_000.0
GOOD = "a" * 64
BAD = "b" * 64


def histogram(name: str, *, good: int, bad: int, threshold: float) -> np.ndarray:
    """Cells with `good` events just at or below the threshold and `bad` in the cell above it."""
    bounds = HISTOGRAM_BOUNDS[name]
    cells = np.zeros(len(bounds) + 1, dtype=np.uint64)
    index = bounds.index(threshold)
    cells[index] = good
    cells[index + 1] = bad
    return cells


def window(
    index: int = 0,
    *,
    seconds: float = 10.0,
    arrays: Mapping[str, Any] | None = None,
    by_generation: Mapping[int, Mapping[str, Any]] | None = None,
    layers: int = 2,
    experts: int = 16,
    top_k: int = 2,
    ranks: int = 2,
    live: str | None = GOOD,
    lkg: str | None = GOOD,
    live_biases: Sequence[str] | None = None,
    config: RuntimeConfig | None = None,
    generation: int = 1,
    missing: int = 0,
    covered: float | None = None,
    steps: int = 100,
    tokens: tuple[int, int] = (500, 500),
    sampled_tokens: int = 0,
    bias_distance: float = 0.0,
    gate_mass: tuple[float, float] = (99.0, 100.0),
    probe_nll: float | None = None,
) -> EngineWindow:
    """The `index`-th window after START."""
    start = START + index * seconds
    header = FrameHeader(
        contract_version=CONTRACT_VERSION, engine_id="engine-0", group="group-0", model="reference",
        boot_id="boot", sequence=index, started_unix_seconds=start + seconds - 1,
        interval_seconds=1.0, layers=layers, experts=experts, top_k=top_k, ranks=ranks,
        config_generation=generation, config=config or RuntimeConfig(router_bias=live),
        configured_bias=live, live_bias=live, lkg_bias=lkg, bias_distance=bias_distance,
        probe_nll=probe_nll,
    )  # fmt: skip
    return EngineWindow(
        engine_id="engine-0", start=start, end=start + seconds, frames=max(1, int(seconds)),
        missing=missing, covered_seconds=seconds if covered is None else covered, header=header,
        arrays=_counts(arrays or {}),
        by_generation={g: _counts(found) for g, found in (by_generation or {}).items()},
        tokens=tokens, steps=steps, sequences=64, sampled_steps=steps // 16,
        sampled_tokens=sampled_tokens, admitted=0, finished=0, rejected=0, failed=0,
        tpot_measured=0, gate_mass_kept=gate_mass[0], gate_mass_total=gate_mass[1],
        live_biases=tuple(live_biases) if live_biases is not None else ((live,) if live else ()),
    )  # fmt: skip


def _counts(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value).astype(np.uint64) for name, value in arrays.items()}
