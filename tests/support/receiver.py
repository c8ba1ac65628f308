"""The receiver of a control plane with one known engine, as an engine sees it."""

from dataclasses import dataclass

import httpx

from controlplane.app import Plane
from tests.support.frames import (
    START,
)

TOKEN = "tt_engine-zero-secret"


PROTOBUF = "application/x-protobuf"


@dataclass
class Running:
    url: str
    plane: Plane
    client: httpx.Client

    def post(self, body: bytes, encoding: str = "", kind: str = PROTOBUF, token: str = TOKEN):
        headers = {"Content-Type": kind, "Authorization": f"Bearer {token}"}
        if encoding:
            headers["Content-Encoding"] = encoding
        return self.client.post(f"{self.url}/v1/logs", content=body, headers=headers)

    def stored(self, engine_id: str = "e0") -> list[int]:
        frames = self.plane.history.frames(engine_id, START - 1e6, START + 1e6)
        return [frame.header.sequence for frame in frames]
