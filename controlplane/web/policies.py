"""Policies: which one governs an engine, the mode of every knob, documents by version."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from controlplane.actuator import policy_store
from controlplane.actuator.governance import Governance
from controlplane.actuator.policy_store import EVERY_ENGINE, Governed
from controlplane.actuator.routes import policies as api
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.policy import dump_policy, load_policy
from controlplane.web.access import Admin, Governing, Viewer, see_other
from controlplane.web.parsing import parsed
from controlplane.web.rendering import page

router = APIRouter(prefix="/policies", include_in_schema=False)
MAX_DOCUMENT = 64 * 1024


@dataclass(frozen=True, slots=True)
class Assignment:
    """What governs an engine, and which modes differ from the policy's own."""

    engine_id: str
    governed: Governed


@router.get("")
def list_page(request: Request, viewer: Viewer, governing: Governing) -> HTMLResponse:
    """Policies and assignments."""
    with governing.database.read() as session:
        policies = [policy_store.newest(session, n) for n in policy_store.names(session)]
    return page(
        request, viewer, "policies.html", twin="/api/v1/policies", policies=policies,
        assignments=_assignments(governing), knobs=list(Knob), modes=list(Mode),
        every=EVERY_ENGINE, default=governing.default_policy,
    )  # fmt: skip


@router.get("/{name}")
def detail_page(name: str, request: Request, viewer: Viewer, governing: Governing) -> HTMLResponse:
    """One policy as a document, with its versions."""
    shown = api.get_policy(name, viewer, governing)
    return page(
        request, viewer, "policy.html", twin=f"/api/v1/policies/{name}", policy=shown.policy,
        versions=shown.versions, document=dump_policy(shown.policy),
    )  # fmt: skip


@router.post("/assign")
def assign(
    admin: Admin, governing: Governing, engine_id: Annotated[str, Form(max_length=128)],
    policy: Annotated[str, Form(max_length=64)],
    capacity_factor: Annotated[str, Form()] = "", chunk_size: Annotated[str, Form()] = "",
    max_concurrency: Annotated[str, Form()] = "", router_bias: Annotated[str, Form()] = "",
) -> RedirectResponse:  # fmt: skip
    """Give an engine a policy; a mode that is left empty is the policy's own."""
    chosen = {
        Knob.CAPACITY_FACTOR: capacity_factor, Knob.CHUNK_SIZE: chunk_size,
        Knob.MAX_CONCURRENCY: max_concurrency, Knob.ROUTER_BIAS: router_bias,
    }  # fmt: skip
    modes = {knob: mode for knob, mode in chosen.items() if mode}
    wish = parsed(api.AssignmentWish, {"policy": policy, "modes": modes})
    api.assign(engine_id, wish, admin, governing)
    return see_other("/policies")


@router.post("/{name}")
def save(
    name: str, admin: Admin, governing: Governing,
    document: Annotated[str, Form(max_length=MAX_DOCUMENT)],
    note: Annotated[str, Form(max_length=1000)] = "",
) -> RedirectResponse:  # fmt: skip
    """Store the document as the next version."""
    parsed = load_policy(document).model_dump(mode="json")
    api.put_policy(name, api.PolicyWish(policy=parsed, note=note), admin, governing)
    return see_other(f"/policies/{name}")


def _assignments(governing: Governance) -> list[Assignment]:
    with governing.database.read() as session:
        return [
            Assignment(name, policy_store.governing(session, name, governing.default_policy))
            for name in (EVERY_ENGINE, *governing.groups.everyone())
        ]
