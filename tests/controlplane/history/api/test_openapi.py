"""What the OpenAPI document says of the history's answers."""

import re

from controlplane.history.api.layer_answers import COLUMN_MEANINGS
from controlplane.history.load_matrix import _HEAD, LAYOUT
from controlplane.history.series import LAYER_COLUMNS

OURS = ("/load", "/experts", "/layers", "/overflow", "/latency", "/timeline", "/gaps", "/boots",
        "/bias-snapshots", "/pins", "/charts")  # fmt: skip


def _reached(document, node, found):
    """Names of the schemas that a part of the document leads to."""
    for ref in re.findall(r"#/components/schemas/(\w+)", str(node)):
        if ref not in found:
            found.add(ref)
            _reached(document, document["components"]["schemas"][ref], found)
    return found


def test_every_field_of_an_answer_of_the_history_is_described(client):
    document = client.get("/api/openapi.json").json()
    history = [
        route
        for path, methods in document["paths"].items()
        for route in methods.values()
        if (path == "/api/v1/engines" or any(part in path for part in OURS))
        and route["tags"] != ["access"]
    ]
    names: set[str] = set()
    for route in history:
        answers = {code: told for code, told in route["responses"].items() if code != "422"}
        _reached(document, [answers, route.get("requestBody")], names)
    assert {"LoadAnswer", "LayerSeries", "LatencyAnswer", "Charts", "NewPin"} <= names
    silent = [
        f"{name}.{field}"
        for name in sorted(names)
        for field, told in document["components"]["schemas"][name].get("properties", {}).items()
        if not told.get("description")
    ]
    assert silent == []


def test_every_column_of_a_layer_has_a_meaning(client):
    assert tuple(COLUMN_MEANINGS) == ("layer", "t0", *LAYER_COLUMNS)
    schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
    told = schemas["LayerSeries"]["properties"]["columns"]["description"]
    assert "16 %" in told
    assert all(f"`{name}`" in told for name in LAYER_COLUMNS)


def test_the_binary_form_is_described(client):
    load = client.get("/api/openapi.json").json()["paths"]["/api/v1/load"]["get"]
    assert LAYOUT in load["responses"]["200"]["description"]
    assert f"{_HEAD.size} bytes" in LAYOUT


def test_times_are_described_as_numbers_or_iso_8601(client):
    load = client.get("/api/openapi.json").json()["paths"]["/api/v1/load"]["get"]
    start = next(each for each in load["parameters"] if each["name"] == "start")
    assert "ISO 8601" in start["description"]
    assert {"type": "string", "format": "date-time"} in _kinds(start["schema"])


def _kinds(schema):
    inner = schema.get("anyOf", [])
    return [schema, *(kind for each in inner for kind in _kinds(each))]
