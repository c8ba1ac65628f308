"""`trimtab bench metrics`: how many series one EP group has on `/metrics`, and what a scrape costs.

The engine's own collector, fed with frames of the reference load (58 layers, 8 ranks).
"""

import shutil
import subprocess
import time

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from engine.telemetry.prometheus import EngineCollector
from engine.telemetry.text_format import encode_families
from trimtab.bench.figure import Figure
from trimtab.bench.reference_load import LOAD_COUNTS, ReferenceLoad

FRAMES = 5
SCRAPES = 30


def run() -> list[Figure]:
    """Series of one group, and the median time to render them.

    Raises:
        RuntimeError: promtool finds fault, or a `_created` series is there.
    """
    load = ReferenceLoad()
    collector = EngineCollector()
    for second in range(FRAMES):
        collector.observe(load.frame("e0", second, float(second)))
    text = encode_families(collector.collect()).decode()
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    if any(sample.name.endswith("_created") for sample in samples):
        raise RuntimeError("/metrics has _created series")
    lint = _lint(text)
    seconds = sorted(_render(collector) for _ in range(SCRAPES))
    theirs = sorted(_render_by_client(collector) for _ in range(SCRAPES))
    return [
        Figure(
            name="metrics.series_per_group", value=len(samples), unit="series", goal=1000,
            compare="<=", against=f"a series per expert: {LOAD_COUNTS:,}; {lint}",
        ),
        Figure(
            name="metrics.render_s", value=float(np.median(seconds)), unit="s", goal=0.005,
            compare="<=", n=SCRAPES, low=seconds[0], high=seconds[-1],
            against=f"client_python's own encoder {np.median(theirs):.4f} s; a child per expert "
            "in it: 0.2 s (reference)",
        ),
    ]  # fmt: skip


def _render(collector: EngineCollector) -> float:
    began = time.perf_counter()
    encode_families(collector.collect())
    return time.perf_counter() - began


def _render_by_client(collector: EngineCollector) -> float:
    registry = CollectorRegistry()
    registry.register(collector)
    began = time.perf_counter()
    generate_latest(registry)
    return time.perf_counter() - began


def _lint(text: str) -> str:
    if shutil.which("promtool") is None:
        return "promtool is not installed"
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"promtool check metrics: {done.stdout}{done.stderr}")
    return "promtool check metrics is clean"
