"""Static files: read once, served with a hash in the URL, so that a browser keeps them for good."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

from controlplane.errors import NotFoundError

STATIC = Path(__file__).parent / "static"
PREFIX = "/static"
FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, plain and compressed."""

    body: bytes
    packed: bytes
    media_type: str
    version: str


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if media_type.startswith("text/"):
        media_type += "; charset=utf-8"
    version = hashlib.sha256(body).hexdigest()[:12]
    return Asset(body, gzip.compress(body, 9, mtime=0), media_type, version)


ASSETS: dict[str, Asset] = {
    path.relative_to(STATIC).as_posix(): _read(path)
    for path in sorted(STATIC.rglob("*"))
    if path.is_file()
}

router = APIRouter()


def url(name: str) -> str:
    """Where a file is served; KeyError when there is none of that name."""
    return f"{PREFIX}/{name}?v={ASSETS[name].version}"


@router.get("/favicon.ico", include_in_schema=False)
def favicon() -> Response:
    """Browsers ask for it without being told to."""
    icon = ASSETS["icon.svg"]
    return Response(icon.body, media_type=icon.media_type, headers={"Cache-Control": "no-cache"})


@router.get(PREFIX + "/{name:path}", include_in_schema=False)
def static_file(name: str, request: Request, v: str = "") -> Response:
    """One file; a URL without the present version is looked up anew every time."""
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFoundError(f"static file {name!r} does not exist", field="name")
    headers = {
        "ETag": f'"{asset.version}"', "Vary": "Accept-Encoding",
        "Cache-Control": FOREVER if v == asset.version else "no-cache",
    }  # fmt: skip
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    body = asset.body
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = asset.packed, "gzip"
    return Response(body, media_type=asset.media_type, headers=headers)
