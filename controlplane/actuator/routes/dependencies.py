"""Who may ask, and what for: the dependencies that every route of acting shares."""

from typing import Annotated

from fastapi import Depends
from pydantic import BaseModel, ConfigDict

from controlplane.actuator.governance import Governance, governance_of
from controlplane.auth.access import require
from controlplane.auth.roles import Principal, Role

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]
Admin = Annotated[Principal, Depends(require(Role.ADMIN))]
Governing = Annotated[Governance, Depends(governance_of)]


class Body(BaseModel):
    """A body that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
