"""Builds every dashboard into JSON, the same bytes from the same code."""

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import communication, control_plane, expert_load, objectives

GENERATED = Path(__file__).parent / "generated"
_DASHBOARDS = (objectives, expert_load, communication, control_plane)


def build_all() -> dict[str, str]:
    """Content by file name of `dashboards/generated`."""
    files: dict[str, str] = {}
    for module in _DASHBOARDS:
        board = module.build().build()
        text = JSONEncoder(sort_keys=True, indent=2).encode(board)
        files[f"{board.uid}.json"] = text + "\n"
    return files


def panel_queries(content: str) -> list[str]:
    """Every PromQL expression of a built dashboard: panels, then annotations."""
    board = json.loads(content)
    panels = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    annotations = board["annotations"]["list"]
    return panels + [annotation["expr"] for annotation in annotations if "expr" in annotation]
