"""The Glossary page."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from controlplane.web.access import Viewer
from controlplane.web.glossary import SECTIONS
from controlplane.web.rendering import page

router = APIRouter(include_in_schema=False)


@router.get("/glossary")
def glossary_page(request: Request, viewer: Viewer) -> HTMLResponse:
    """Every term, by section."""
    return page(request, viewer, "glossary.html", sections=SECTIONS)
