"""The benchmarks by name. Each module has `run() -> list[Figure]`; most need minutes."""

import dataclasses
import importlib

from trimtab.bench.figure import Figure, machine

BENCHMARKS: dict[str, str] = {
    "codec": "trimtab.bench.codec",
    "cost-model": "trimtab.bench.cost_model",
    "detect": "trimtab.bench.detect",
    "engine": "trimtab.bench.engine",
    "ep-curve": "trimtab.bench.ep_curve",
    "ingest": "trimtab.bench.ingest",
    "kernels": "trimtab.bench.kernels",
    "metrics": "trimtab.bench.metrics",
    "moe-layer": "trimtab.bench.moe_layer",
    "overflow": "trimtab.bench.overflow",
    "overhead": "trimtab.bench.overhead",
    "query": "trimtab.bench.query",
    "simulation": "trimtab.bench.simulation",
}


def run(name: str) -> list[Figure]:
    """Run one benchmark; its figures say how to run them again and where they were measured."""
    module = importlib.import_module(BENCHMARKS[name])
    figures: list[Figure] = module.run()
    here, command = machine(), f"trimtab bench {name}"
    return [dataclasses.replace(figure, machine=here, command=command) for figure in figures]
