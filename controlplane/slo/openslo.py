"""Objectives from OpenSLO v1 YAML. What the specification has no field for is an annotation.

A document is ours when its annotation `trimtab.dev/slo` (or, without one, its name) is `ttft`,
`tpot` or `overflow`. Every other valid document is accepted and left alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml
from pydantic import TypeAdapter, ValidationError

from contract.burn_windows import BurnTier, Consumer
from controlplane.errors import InvalidInputError
from controlplane.slo.openslo_kinds import KINDS, AlertCondition, Document, Slo
from controlplane.slo.settings import LatencyObjective, OverflowObjective, SloSettings
from controlplane.slo.status import SloName
from controlplane.slo.yaml_error import in_one_line

PREFIX = "trimtab.dev/"
_DOCUMENT: TypeAdapter[Document] = TypeAdapter(Document)
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "M": 2_592_000, "Q": 7_776_000}
_SECONDS["Y"] = 31_536_000


@dataclass(frozen=True, slots=True)
class OpenSloFile:
    """A valid file: its documents, and the settings that follow from ours among them."""

    documents: Sequence[Document]
    settings: SloSettings
    governed: tuple[SloName, ...] = field(default=())


def read_openslo(text: str) -> OpenSloFile:
    """Read and check a file of one or more documents.

    Raises:
        InvalidInputError: the first thing that is wrong, with its document and field.
    """
    try:
        bodies = [body for body in yaml.safe_load_all(text) if body is not None]
    except yaml.YAMLError as error:
        raise InvalidInputError(f"not YAML: {in_one_line(error)}", field="file") from error
    if not bodies:
        raise InvalidInputError("no document in the file", field="file")
    documents = [_document(index, body) for index, body in enumerate(bodies, start=1)]
    changes: dict[str, object] = {}
    for document in documents:
        name = _ours(document)
        if name is None or not isinstance(document, Slo):
            continue
        if name.value in changes:
            raise InvalidInputError(f"two SLOs for {name}", field="metadata.name", value=str(name))
        changes[name.value] = _objective(name, document)
    tiers = tuple(_tier(d) for d in documents if isinstance(d, AlertCondition))
    governed = tuple(SloName(name) for name in changes)
    if any(tier.consumer is Consumer.GOVERNOR for tier in tiers):
        changes["tiers"] = tiers
    try:
        settings = SloSettings.model_validate(changes)
    except ValidationError as error:
        raise _invalid("file", error) from error
    return OpenSloFile(documents=documents, settings=settings, governed=governed)


def _document(index: int, body: object) -> Document:
    if not isinstance(body, Mapping):
        raise InvalidInputError(
            f"document {index} is no mapping but {str(body)[:40]!r}: a YAML file of OpenSLO "
            "documents has apiVersion, kind, metadata and spec in each",
            field="file", value=str(body)[:80],
        )  # fmt: skip
    try:
        return _DOCUMENT.validate_python(body)
    except ValidationError as error:
        raise _invalid(f"document {index}{_called(body)}", error) from error


def _called(body: Mapping[str, object]) -> str:
    """Kind and name of a document, as far as it has them, in brackets."""
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    known = " ".join(str(part) for part in (body.get("kind"), name) if part is not None)
    return f" ({known[:80]})" if known else ""


def _invalid(where: str, error: ValidationError) -> InvalidInputError:
    first = error.errors(include_url=False)[0]
    got = str(first["input"])[:80]
    if first["type"].startswith("union_tag"):
        return InvalidInputError(
            f"{where}: kind must be one of {', '.join(KINDS)}", field="kind", bound=KINDS
        )
    path = ".".join(str(part) for part in first["loc"])
    told = first["msg"].removeprefix("Value error, ")
    said = f"{path}: {told}" if path else told
    # For an absent field pydantic gives the whole table that lacks it.
    shown = "" if isinstance(first["input"], dict) else f" (got {got})"
    return InvalidInputError(f"{where}: {said}{shown}", field=path or "file", value=got)


def _ours(document: Document) -> SloName | None:
    metadata = document.metadata
    name = metadata.annotations.get(PREFIX + "slo", metadata.name)
    return SloName(name) if name in set(SloName) else None


def _objective(name: SloName, document: Slo) -> LatencyObjective | OverflowObjective:
    objective = document.spec.objectives[0]
    notes = document.metadata.annotations
    if name is SloName.OVERFLOW:
        if document.spec.budgetingMethod != "Timeslices" or objective.timeSliceTarget is None:
            raise InvalidInputError(
                "SLO overflow: spec.budgetingMethod must be Timeslices",
                field="spec.budgetingMethod", value=document.spec.budgetingMethod,
            )  # fmt: skip
        default = OverflowObjective()
        window = seconds(objective.timeSliceWindow or "1m")
        return OverflowObjective(
            threshold=round(1.0 - objective.timeSliceTarget, 9), target=objective.ratio,
            slice_seconds=_number(notes, "slice-seconds", window),
            slices_needed=int(_number(notes, "slices-needed", default.slices_needed)),
            slices_seen=int(_number(notes, "slices-seen", default.slices_seen)),
            min_assignments=int(_number(notes, "min-assignments", default.min_assignments)),
        )  # fmt: skip
    if document.spec.budgetingMethod != "Occurrences":
        raise InvalidInputError(
            f"SLO {name}: spec.budgetingMethod must be Occurrences",
            field="spec.budgetingMethod", value=document.spec.budgetingMethod,
        )  # fmt: skip
    if objective.op not in (None, "lt", "lte"):
        raise InvalidInputError(
            f"SLO {name}: spec.objectives.0.op {objective.op} would call slow requests good; "
            "use lt or lte", field="spec.objectives.0.op", value=objective.op,
        )  # fmt: skip
    threshold = _number(notes, "threshold-seconds", objective.value or 0.0)
    if threshold <= 0:
        raise InvalidInputError(
            f"SLO {name}: spec.objectives.0.value must be the threshold in seconds, above 0",
            field="spec.objectives.0.value", value=objective.value,
        )  # fmt: skip
    return LatencyObjective(threshold_seconds=threshold, target=objective.ratio)


def _tier(document: AlertCondition) -> BurnTier:
    notes, condition = document.metadata.annotations, document.spec.condition
    long_seconds = int(_number(notes, "long-seconds", seconds(condition.lookbackWindow)))
    consumer = notes.get(PREFIX + "consumer", Consumer.PAGE)
    if consumer not in set(Consumer):
        known = ", ".join(Consumer)
        raise InvalidInputError(
            f"AlertCondition {document.metadata.name}: {PREFIX}consumer {consumer!r} is not one of "
            f"{known}", field=PREFIX + "consumer", value=consumer,
        )  # fmt: skip
    return BurnTier(
        name=document.metadata.name, long_seconds=long_seconds,
        short_seconds=int(_number(notes, "short-seconds", max(1, long_seconds // 12))),
        burn=condition.threshold, min_events=int(_number(notes, "min-events", 0)),
        consumer=Consumer(consumer),
    )  # fmt: skip


def seconds(duration: str) -> int:
    """Seconds of an OpenSLO duration (months of 30 days)."""
    return int(duration[:-1]) * _SECONDS[duration[-1]]


def _number(notes: Mapping[str, str], name: str, default: float) -> float:
    text = notes.get(PREFIX + name)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInputError(
            f"annotation {PREFIX}{name} {text!r} is not a number", field=PREFIX + name, value=text
        ) from error
