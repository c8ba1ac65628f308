"""The files of a checkpoint folder: its config, and where each tensor lies."""

import json
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError

_CONFIG = "config.json"
_WHOLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def read_config(folder: Path) -> dict[str, Any]:
    """The parsed config.json.

    Raises:
        CheckpointError: it is absent or not a JSON object.
    """
    return _read_object(folder / _CONFIG)


def tensor_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files: one, or those that the index names.

    Raises:
        CheckpointError: none is there, or the index names one that is not.
    """
    if (folder / _WHOLE).is_file():
        return (folder / _WHOLE,)
    if not (folder / _INDEX).is_file():
        raise CheckpointError(
            f"{folder} has neither {_WHOLE} nor {_INDEX}", field="checkpoint", value=str(folder)
        )
    shards = _read_object(folder / _INDEX).get("weight_map", {})
    files = tuple(folder / name for name in sorted(set(shards.values())))
    for file in files:
        # A name with a folder in it could point anywhere on this machine.
        if file.parent != folder or not file.is_file():
            raise CheckpointError(
                f"{_INDEX} names the shard {file.name!r}, which is not in {folder}",
                field="weight_map", value=file.name,
            )  # fmt: skip
    return files


def _read_object(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is absent", field=path.name, value=str(path)) from None
    except ValueError as error:
        raise CheckpointError(
            f"{path} is not JSON: {error}", field=path.name, value=str(path)
        ) from None
    if not isinstance(body, dict):
        raise CheckpointError(f"{path} is not a JSON object", field=path.name, value=str(path))
    return body
