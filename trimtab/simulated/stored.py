"""Stored snapshots of a control plane, over its JSON API."""

from typing import Any

import httpx
from pydantic import ValidationError

from contract.settings_reader import TOKEN_VARIABLE
from controlplane.policy.snapshot import Snapshot
from trimtab.errors import InputError
from trimtab.token_option import token_hint

_PAGE = 500


def read_history(
    url: str, engine: str | None, token: str | None, limit: int, *,
    transport: httpx.BaseTransport | None = None,
) -> list[Snapshot]:  # fmt: skip
    """The newest `limit` stored snapshots of one engine, oldest first.

    A decision that said the same as the one before prolonged it, so its snapshot is not stored.

    Raises:
        InputError: the control plane does not answer, or has several engines and none was named.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with httpx.Client(
            base_url=url, headers=headers, timeout=30.0, trust_env=False, transport=transport
        ) as client:
            decisions = _decisions(client, engine, limit)
            engines = {str(each["engine_id"]) for each in decisions}
            if len(engines) > 1:
                raise InputError(f"Name one of the engines: --engine {' | '.join(sorted(engines))}")
            bodies = [
                _get(client, f"/api/v1/decisions/{each['decision_id']}") for each in decisions
            ]
    except httpx.HTTPStatusError as error:
        raise InputError(_refusal(error.response.status_code, url, token)) from None
    except httpx.HTTPError as error:
        raise InputError(f"The control plane at {url} does not answer: {error}") from None
    try:
        found = [Snapshot.model_validate(body["snapshot"]) for body in bodies]
    except ValidationError as error:
        raise InputError(f"A stored snapshot cannot be read: {error.errors()[0]['msg']}") from None
    if not found:
        raise InputError(f"The control plane at {url} has stored no snapshot yet.")
    return sorted(found, key=lambda snapshot: snapshot.at)


def _decisions(client: httpx.Client, engine: str | None, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < limit:
        query: dict[str, Any] = {"limit": min(_PAGE, limit - len(found))}
        if engine is not None:
            query["engine"] = engine
        if found:
            query["before"] = found[-1]["at"]
        page = _get(client, "/api/v1/decisions", query)
        if not page:
            break
        found += page
    return found


def _get(client: httpx.Client, path: str, query: dict[str, Any] | None = None) -> Any:
    answer = client.get(path, params=query)
    answer.raise_for_status()
    return answer.json()


def _refusal(status: int, url: str, token: str | None) -> str:
    hint = "see its log"
    if status in {401, 403}:
        hint = token_hint(token, TOKEN_VARIABLE, "viewer", status)
    return f"The control plane at {url} answered {status}: {hint}"
