"""Expert placements by id; `linear` is built in: slot s holds expert s, in rank order."""

import numpy as np
import numpy.typing as npt

from contract.admin import PlacementBody
from engine.errors import BadRequestError, NotFoundError
from engine.server.core import ModelFacts
from engine.server.database import Database

LINEAR = "linear"


class PlacementStore:
    """Stored placements of one model on a fixed number of ranks."""

    def __init__(self, database: Database, model: ModelFacts, ranks: int) -> None:
        self._database = database
        self._model = model
        self._ranks = ranks
        rows = database.rows("SELECT body FROM placements ORDER BY placement_id")
        bodies = [PlacementBody.model_validate_json(row[0]) for row in rows]
        self._bodies = {body.placement_id: body for body in bodies}

    def ids(self) -> tuple[str, ...]:
        """Known ids, `linear` first."""
        return (LINEAR, *self._bodies)

    def get(self, placement_id: str) -> PlacementBody:
        """A placement by id."""
        if placement_id == LINEAR:
            row = tuple(range(self._model.experts))
            return PlacementBody(
                placement_id=LINEAR, ranks=self._ranks,
                physical_to_logical=(row,) * self._model.moe_layers,
            )  # fmt: skip
        if placement_id not in self._bodies:
            raise NotFoundError(
                f"no stored placement is called {placement_id!r}; known: {', '.join(self.ids())}",
                field="placement", value=placement_id, bound=self.ids(),
            )  # fmt: skip
        return self._bodies[placement_id]

    def slots(self, placement_id: str) -> npt.NDArray[np.int64] | None:
        """Physical slot → logical expert [MoE layers, slots]; None for `linear`."""
        if placement_id == LINEAR:
            return None
        return np.asarray(self.get(placement_id).physical_to_logical, dtype=np.int64)

    def put(self, body: PlacementBody) -> None:
        """Store a placement; an id is never given another meaning."""
        self._check(body)
        if body.placement_id == LINEAR or self._bodies.get(body.placement_id, body) != body:
            raise BadRequestError(
                f"placement_id {body.placement_id!r} already means another placement",
                field="placement_id", value=body.placement_id, bound="an unused id",
            )  # fmt: skip
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO placements (placement_id, body) VALUES (?, ?)",
                (body.placement_id, body.model_dump_json()),
            )
        self._bodies[body.placement_id] = body

    def _check(self, body: PlacementBody) -> None:
        rows = body.physical_to_logical
        if body.ranks != self._ranks:
            raise _bad("ranks", body.ranks, self._ranks)
        if len(rows) != self._model.moe_layers:
            raise _bad("physical_to_logical", f"{len(rows)} layers", self._model.moe_layers)
        experts = set(range(self._model.experts))
        for layer, row in enumerate(rows):
            field = f"physical_to_logical.{layer}"
            if len(row) != len(rows[0]) or len(row) % self._ranks:
                raise _bad(field, f"{len(row)} slots", f"equal and a multiple of {self._ranks}")
            if set(row) != experts:
                wrong = sorted(set(row) ^ experts)[:5]
                raise _bad(field, wrong, f"every expert 0 … {self._model.experts - 1}, no other")


def _bad(field: str, value: object, bound: object) -> BadRequestError:
    return BadRequestError(
        f"placement: {field} is {value}, expected {bound}", field=field, value=value, bound=bound
    )
