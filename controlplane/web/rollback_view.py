"""What the Rollback page shows: versions, the difference, the blast radius, a stale page's news."""

from dataclasses import dataclass
from typing import Any, Literal

from contract.admin import BiasInfo, BiasList, ConfigDocument, ConfigState, WhatIfRequest
from contract.headers import config_etag
from controlplane.actuator import action_store
from controlplane.actuator.governance import Governance
from controlplane.errors import InvalidInputError, NotFoundError, TrimtabError
from controlplane.history.history import History
from controlplane.web import engine_view
from controlplane.web.bias_values import LayerChange
from controlplane.web.differences import (
    KnobChange,
    bias_changes,
    config_changes,
    document_of,
)

Kind = Literal["bias", "config"]


@dataclass(frozen=True, slots=True)
class BiasChoice:
    """A bias version to go back to, with what is changed against the live one."""

    info: BiasInfo
    changes: list[LayerChange]
    unknown: str


@dataclass(frozen=True, slots=True)
class ConfigChoice:
    """A stored generation to go back to, knob by knob."""

    document: ConfigDocument
    changes: list[KnobChange]


@dataclass(frozen=True, slots=True)
class Blast:
    """How much a rollback touches."""

    engines: int
    group_engines: int
    group: str
    running: int
    queued: int
    in_flight: str | None
    regulator_stops: bool


def view(
    governing: Governance, history: History, engine_id: str, kind: Kind, to: str
) -> dict[str, Any]:
    """Everything on the page; `to` is a bias hash or a generation, "" when none is chosen."""
    admin = governing.admins.of(engine_id)
    state, biases, documents = admin.config(), admin.biases(), admin.history().documents
    shown = {
        "engine_id": engine_id, "kind": kind, "to": to, "state": state, "biases": biases,
        "etag": state.etag, "documents": documents[::-1], "bias": None, "chosen": None,
        "engine": engine_view.engine(governing, history, engine_id),
        "blast": _blast(governing, history, engine_id, kind, state),
    }  # fmt: skip
    if kind == "bias" and to:
        shown["bias"] = _bias(governing, engine_id, biases, to)
    if kind == "config" and to:
        document = document_of(documents, generation(to))
        changes = config_changes(state.document.config, document.config)
        shown["chosen"] = ConfigChoice(document, changes)
    return shown


def generation(to: str) -> int:
    """A generation out of a query.

    Raises:
        InvalidInputError: not a whole number.
    """
    if not to.isascii() or not to.isdigit() or len(to) > 12:
        raise InvalidInputError(
            f"generation {to!r} is not a whole number", field="to", value=to[:64], bound=">= 0"
        )
    return int(to)


def _bias(governing: Governance, engine_id: str, biases: BiasList, to: str) -> BiasChoice:
    info = next((info for info in biases.versions if info.bias_hash == to), None)
    if info is None:
        raise NotFoundError(
            f"engine {engine_id!r} stores no bias version {to[:10]!r}", field="to", value=to[:64]
        )
    if biases.live_hash is None:
        return BiasChoice(info, [], "the engine names no live bias")
    try:
        return BiasChoice(info, bias_changes(governing, engine_id, biases.live_hash, to), "")
    except TrimtabError as error:
        return BiasChoice(info, [], error.detail)


def _blast(
    governing: Governance, history: History, engine_id: str, kind: Kind, state: ConfigState
) -> Blast:
    group = governing.groups.group_of(engine_id)
    newest = history.newest(engine_id)
    gauges = newest.header.gauges if newest is not None else None
    with governing.database.read() as session:
        in_flight = action_store.in_flight(session, group)
    return Blast(
        engines=1, group_engines=len(governing.groups.members(group)), group=group,
        running=gauges.running if gauges else 0, queued=gauges.queued if gauges else 0,
        in_flight=in_flight,
        regulator_stops=kind == "bias" and state.document.config.bias_update.value == "on",
    )  # fmt: skip


def what_if_request(
    governing: Governance, engine_id: str, kind: Kind, to: str
) -> WhatIfRequest | None:
    """The question for shadow routing; None where it has no answer (C does not change)."""
    if kind == "bias":
        return WhatIfRequest(bias_hash=to)
    admin = governing.admins.of(engine_id)
    target = document_of(admin.history().documents, generation(to)).config
    now = admin.config().document.config
    if target.capacity_factor is None or target.capacity_factor == now.capacity_factor:
        return None
    return WhatIfRequest(capacity_factor=target.capacity_factor)


def since(governing: Governance, engine_id: str, seen: str) -> dict[str, Any]:
    """What changed on an engine since a page with the ETag `seen` was made."""
    admin = governing.admins.of(engine_id)
    state, documents = admin.config(), admin.history().documents
    before = next((d for d in documents if config_etag(d.generation, d.config_hash) == seen), None)
    later = [
        d for d in documents if before is not None and d.generation > before.generation
    ] or [state.document]  # fmt: skip
    changes = [] if before is None else [
        row for row in config_changes(before.config, state.document.config) if row.changed
    ]  # fmt: skip
    return {"before": before, "state": state, "later": later, "changes": changes}
