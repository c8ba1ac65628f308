import hashlib
import json
from pathlib import Path

VENDOR = Path(__file__).parents[3] / "controlplane" / "web" / "static" / "vendor"


def test_every_vendored_file_is_the_one_that_its_registry_published() -> None:
    listed = json.loads((VENDOR / "vendor.json").read_text())
    for entry in listed:
        digest = hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest()
        assert digest == entry["sha256"], entry["file"]
    assert {entry["file"] for entry in listed} | {"vendor.json"} == {
        path.name for path in VENDOR.iterdir()
    }
