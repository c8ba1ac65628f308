"""Every server of the program says how long it keeps idle connections: uvicorn's 5 s are a beat of
its clients, which would meet connections as they are closed.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVING = [
    path for folder in ("controlplane", "engine", "trimtab")
    for path in sorted((ROOT / folder).glob("**/*.py")) if "uvicorn.Config(" in path.read_text()
]  # fmt: skip


@pytest.mark.parametrize("path", SERVING, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_server_keeps_idle_connections_for_the_time_of_the_contract(path):
    calls = [
        node for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "uvicorn.Config"
    ]  # fmt: skip
    assert calls
    for call in calls:
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert given.get("timeout_keep_alive") == "SERVER_KEEP_ALIVE_SECONDS"
