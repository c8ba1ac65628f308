"""`/healthz`, `/readyz` and `/metrics`: for supervisors and Prometheus, without a token."""

import shutil
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict

from controlplane.db.database import Database
from controlplane.errors import StorageError
from controlplane.ingest.writer import FrameWriter
from controlplane.metrics import Instruments

MIN_FREE_BYTES = 64 * 1024 * 1024

router = APIRouter(tags=["probes"])


class Check(BaseModel):
    """One thing that must hold for this process to be of use."""

    model_config = ConfigDict(frozen=True)

    name: str
    ok: bool
    detail: str = ""


class Readiness(BaseModel):
    """Whether requests make sense now, and what stands in the way."""

    model_config = ConfigDict(frozen=True)

    ready: bool
    checks: list[Check]


def _state(request: Request) -> "Probes":
    probes: Probes = request.app.state.probes
    return probes


class Probes:
    """The checks of one process; lives in `app.state.probes`."""

    def __init__(self, database: Database, writer: FrameWriter, instruments: Instruments) -> None:
        self._database = database
        self._writer = writer
        self.instruments = instruments

    def readiness(self) -> Readiness:
        """Ask the database, the disk and the writer."""
        checks = [self._answers(), self._has_room(), self._writes()]
        return Readiness(ready=all(check.ok for check in checks), checks=checks)

    def _answers(self) -> Check:
        try:
            self._database.answers()
        except StorageError as error:
            return Check(name="database", ok=False, detail=error.detail)
        return Check(name="database", ok=True)

    def _has_room(self) -> Check:
        folder = self._database.folder
        if folder is None:
            return Check(name="disk", ok=True, detail="not this machine's")
        free = shutil.disk_usage(folder if folder.exists() else Path()).free
        return Check(
            name="disk", ok=free >= MIN_FREE_BYTES,
            detail=f"{free} bytes free, at least {MIN_FREE_BYTES} are wanted",
        )  # fmt: skip

    def _writes(self) -> Check:
        failure = self._writer.recent_failure()
        return Check(name="writer", ok=not failure, detail=failure)


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Answers while the process lives."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"model": Readiness}})
def readyz(response: Response, probes: Annotated[Probes, Depends(_state)]) -> Readiness:
    """200 when frames can be stored, 503 with the reason when not."""
    readiness = probes.readiness()
    if not readiness.ready:
        response.status_code = 503
    return readiness


@router.get("/metrics", response_class=Response)
def metrics(probes: Annotated[Probes, Depends(_state)]) -> Response:
    """Prometheus text format of the control plane's own series."""
    return Response(probes.instruments.render(), media_type=CONTENT_TYPE_LATEST)
