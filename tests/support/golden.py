"""Bodies of the contract as they were agreed: JSON files that both planes are held to."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "contract" / "golden"


def golden_text(name: str) -> str:
    """The text of one golden file."""
    return (FOLDER / f"{name}.json").read_text("utf-8")


def golden(name: str) -> Any:
    """One golden file, parsed."""
    return json.loads(golden_text(name))


def contains(body: Any, agreed: Any) -> bool:
    """Whether `body` says all that was agreed; a newer minor may say more."""
    if isinstance(agreed, dict):
        return isinstance(body, dict) and all(
            key in body and contains(body[key], value) for key, value in agreed.items()
        )
    if isinstance(agreed, list):
        return (
            isinstance(body, list) and len(body) == len(agreed) and all(map(contains, body, agreed))
        )
    return bool(body == agreed)
