"""Rollback: pick a version, see the difference and the prediction, confirm.

The ETag of what the page showed travels with the form as If-Match, so that a stale page rolls
nothing back: its answer is a page that says what changed since.
"""

from typing import Annotated

from fastapi import APIRouter, Form, Header, Request
from fastapi.responses import HTMLResponse, Response

from controlplane.errors import ConflictError, EngineError, InvalidInputError
from controlplane.web import rollback_view
from controlplane.web.access import Governing, Operator, Stored, Viewer, see_other
from controlplane.web.rendering import fragment, page
from controlplane.web.rollback_view import Kind

router = APIRouter(prefix="/engines/{engine_id}/rollback", include_in_schema=False)


@router.get("")
def rollback_page(
    engine_id: str, request: Request, viewer: Viewer, governing: Governing, history: Stored,
    kind: Kind = "bias", to: str = "",
) -> HTMLResponse:  # fmt: skip
    """Versions, and what the chosen one would change."""
    shown = rollback_view.view(governing, history, engine_id, kind, to)
    path = "router-bias" if kind == "bias" else "config"
    twin = f"/api/v1/engines/{engine_id}/{path}"
    return page(
        request, viewer, "rollback.html",
        twin=f"{twin}/difference?to={to}" if to else twin if kind == "bias" else f"{twin}/history",
        headers={"ETag": shown["etag"]}, **shown,
    )  # fmt: skip


@router.get("/what-if")
def what_if(
    engine_id: str, _viewer: Viewer, governing: Governing, kind: Kind, to: str
) -> HTMLResponse:
    """The prediction of shadow routing: a piece of the page, fetched once the page is there."""
    answer, failed = None, ""
    try:
        question = rollback_view.what_if_request(governing, engine_id, kind, to)
        if question is not None:
            answer = governing.operations.what_if(engine_id, question)
    except (EngineError, ValueError) as error:
        failed = str(error)
    return HTMLResponse(fragment("parts/what_if.html", answer=answer, failed=failed))


@router.post("")
def roll_back(
    engine_id: str, request: Request, operator: Operator, governing: Governing,
    kind: Annotated[Kind, Form()], to: Annotated[str, Form(max_length=64)],
    reason: Annotated[str, Form(min_length=1, max_length=512)],
    seen: Annotated[str, Form(alias="if_match", max_length=128)] = "",
    layers: Annotated[list[int] | None, Form()] = None,
    all_layers: Annotated[int, Form(ge=0)] = 0,
    if_match: Annotated[str | None, Header(alias="If-Match")] = None,
) -> Response:  # fmt: skip
    """Make the chosen version live by a new action, unless the engine moved meanwhile."""
    etag = if_match or seen
    if not etag:
        raise InvalidInputError("the page's ETag is missing: load the page anew", field="If-Match")
    try:
        if kind == "bias":
            action = governing.operations.roll_bias_back(
                engine_id, bias_hash=to, layers=_layers(layers, all_layers), if_match=etag,
                by=operator.name, reason=reason,
            )  # fmt: skip
        else:
            action = governing.operations.roll_config_back(
                engine_id, generation=rollback_view.generation(to), if_match=etag,
                by=operator.name, reason=reason,
            )  # fmt: skip
    except ConflictError as error:
        if error.field != "If-Match":
            raise
        return page(
            request, operator, "stale.html", status=409, engine_id=engine_id, kind=kind, to=to,
            told=error.detail, **rollback_view.since(governing, engine_id, etag),
        )  # fmt: skip
    return see_other(f"/actions/{action.action_id}")


def _layers(chosen: list[int] | None, total: int) -> tuple[int, ...] | None:
    """The layers that were ticked; None, the whole bias, when that is all of them."""
    if total == 0:
        return None
    if not chosen:
        raise InvalidInputError("tick at least one layer", field="layers", value=[], bound=total)
    return None if len(set(chosen)) == total else tuple(sorted(set(chosen)))
