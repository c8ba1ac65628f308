"""Files stay small: over 300 lines only those listed, and a listed one may only shrink."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 300
PACKAGES = ("alerts", "contract", "controlplane", "dashboards", "engine", "kernels", "trimtab")

LARGE: dict[str, int] = {"contract/admin.py": 309, "engine/llm_engine/engine.py": 313}
"""Python files of the program that are longer, with the most lines they may have."""


def long_files() -> dict[str, int]:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    return {name: count for name, count in lines.items() if count > LIMIT}


def test_no_file_outgrows_its_bound():
    grown = {name: n for name, n in long_files().items() if n > LARGE.get(name, LIMIT)}
    assert not grown, "split it: one idea a file"


def test_the_list_names_only_long_files():
    assert set(LARGE) <= set(long_files()), "take it off the list"
