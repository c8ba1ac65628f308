"""What a rollback would change, for the page and as JSON: a bias by layer, a config by knob."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from contract.admin import ConfigDocument
from contract.runtime_config import HASH_PATTERN, KNOBS, RuntimeConfig
from controlplane.actuator import bias_snapshots
from controlplane.actuator.governance import Governance
from controlplane.errors import EngineError, NotFoundError
from controlplane.web.access import Governing, Viewer
from controlplane.web.bias_values import Bias, LayerChange, compare, read_bias

router = APIRouter(prefix="/api/v1/engines/{engine_id}", tags=["engines"])
Hash = Annotated[str, Query(pattern=HASH_PATTERN)]


@dataclass(frozen=True, slots=True)
class KnobChange:
    """One knob on either side."""

    knob: str
    before: str | int | None
    after: str | int | None

    @property
    def changed(self) -> bool:
        """Whether the sides differ."""
        return self.before != self.after


def config_changes(before: RuntimeConfig, after: RuntimeConfig) -> list[KnobChange]:
    """Every knob, changed or not."""
    return [KnobChange(knob, getattr(before, knob), getattr(after, knob)) for knob in KNOBS]


def document_of(documents: tuple[ConfigDocument, ...], generation: int) -> ConfigDocument:
    """One stored generation.

    Raises:
        NotFoundError: the engine keeps none of that number.
    """
    for document in documents:
        if document.generation == generation:
            return document
    raise NotFoundError(
        f"the engine keeps no generation {generation}", field="to", value=generation,
        bound=[document.generation for document in documents],
    )  # fmt: skip


def bias_changes(
    governing: Governance, engine_id: str, before: str, after: str
) -> list[LayerChange]:
    """Per layer what making `after` live would change against `before`.

    Raises:
        NotFoundError: the values of one of them are stored nowhere.
    """
    return compare(_values(governing, engine_id, before), _values(governing, engine_id, after))


def _values(governing: Governance, engine_id: str, bias_hash: str) -> Bias:
    """From the control plane's store, else from the engine."""
    try:
        with governing.database.read() as session:
            payload = bias_snapshots.payload_of(session, bias_hash)
    except NotFoundError:
        try:
            payload = governing.admins.of(engine_id).bias_blob(bias_hash)
        except EngineError as error:
            raise NotFoundError(
                f"the values of bias {bias_hash[:10]} are stored neither here nor at the engine: "
                f"{error.detail}",
                field="bias_hash", value=bias_hash,
            ) from error  # fmt: skip
    return read_bias(payload)


@router.get("/router-bias/difference")
def bias_difference(
    engine_id: str, _viewer: Viewer, governing: Governing, to: Hash,
    frm: Annotated[str | None, Query(alias="from", pattern=HASH_PATTERN)] = None,
) -> list[LayerChange]:  # fmt: skip
    """Per layer L2, L∞ and the experts that move most; `from` is the live bias by default."""
    governing.groups.group_of(engine_id)
    before = frm or governing.admins.of(engine_id).biases().live_hash
    if before is None:
        raise NotFoundError(f"engine {engine_id!r} has no router bias", field="from")
    return bias_changes(governing, engine_id, before, to)


@router.get("/config/difference")
def config_difference(
    engine_id: str, _viewer: Viewer, governing: Governing, to: Annotated[int, Query(ge=0)]
) -> list[KnobChange]:
    """Knob by knob, from the present config to a stored generation."""
    admin = governing.admins.of(engine_id)
    target = document_of(admin.history().documents, to)
    return config_changes(admin.config().document.config, target.config)
