"""The JSON API as a page: every operation, from the OpenAPI document; no foreign script."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from controlplane.web.access import Viewer
from controlplane.web.rendering import page

router = APIRouter(include_in_schema=False)


@router.get("/api")
def api_page(request: Request, viewer: Viewer) -> HTMLResponse:
    """Operations by tag."""
    document = request.app.openapi()
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            tags.setdefault(tag, []).append(
                {
                    "method": method.upper(), "path": path,
                    "told": operation.get("description", operation.get("summary", "")),
                    "parameters": [p["name"] for p in operation.get("parameters", [])],
                }
            )  # fmt: skip
    return page(
        request, viewer, "api.html", twin="/api/openapi.json", tags=dict(sorted(tags.items())),
        version=document["info"]["version"],
    )  # fmt: skip
