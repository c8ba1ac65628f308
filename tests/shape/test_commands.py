import importlib.util

from trimtab.bench.registry import BENCHMARKS
from trimtab.cli import COMMANDS


def test_every_listed_command_has_its_module() -> None:
    missing = [
        name for name in COMMANDS if not importlib.util.find_spec(f"trimtab.commands.{name}")
    ]
    assert missing == []


def test_every_listed_benchmark_has_its_module() -> None:
    assert [
        name for name, module in BENCHMARKS.items() if not importlib.util.find_spec(module)
    ] == []
