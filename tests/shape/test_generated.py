"""What is generated and committed equals what the code generates now."""

from pathlib import Path

import pytest

import alerts.build
import dashboards.build

BUILT = [
    (module.GENERATED, module.build_all(), name)
    for module, name in ((alerts.build, "alerts"), (dashboards.build, "dashboards"))
]


@pytest.mark.parametrize(("folder", "files", "name"), BUILT, ids=["alerts", "dashboards"])
def test_generated_files_are_up_to_date(folder: Path, files: dict[str, str], name: str):
    kept = {path.name: path.read_text() for path in folder.iterdir()}
    assert kept == files, f"run `trimtab {name} build` and commit"
