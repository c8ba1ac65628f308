"""The list of settings: complete, and what the models say."""

import pytest

from contract.settings_names import variables
from contract.settings_reader import CONTROL_SOURCE, ENGINE_SOURCE
from controlplane.settings import Settings
from engine.server.settings import EngineSettings
from trimtab.settings_reference import ROOT, markdown, tables

PLANES = [(Settings, CONTROL_SOURCE), (EngineSettings, ENGINE_SOURCE)]


def test_the_document_is_what_the_programs_know():
    kept = (ROOT / "docs" / "settings.md").read_text()
    assert kept == markdown(), "run `make generate` and commit"


@pytest.mark.parametrize(("model", "source"), PLANES, ids=["control plane", "engine"])
def test_every_variable_that_is_read_is_listed_with_a_meaning(model, source):
    listed = {each.variable: each for table in tables(model, source) for each in table.settings}
    leaves = {name for name, _ in variables(model, source.prefix)}
    leaves -= {name for name in leaves if any(other.startswith(f"{name}__") for other in leaves)}
    assert {f"`{name}`" for name in leaves} == listed.keys() - {"–"}
    assert all(len(each.meaning) > 8 for each in listed.values())


def test_defaults_and_bounds_are_the_models():
    rows = {
        (table.heading, each.name): each
        for table in tables(Settings, CONTROL_SOURCE)
        for each in table.settings
    }
    ring = rows["[history]", "ring_frames"]
    assert (ring.variable, ring.default, ring.bounds) == (
        "`TRIMTAB_HISTORY__RING_FRAMES`", "`900`", "≥ 60, ≤ 86400",
    )  # fmt: skip
    assert rows["[[engines]]", "url"].default == "needed"
    assert rows["[[engines]]", "kind"].bounds == "`trimtab` or `vllm` or `sglang`"
    assert rows["[auth]", "admin_token"].default == "none"


def test_a_line_that_goes_on_belongs_to_its_setting():
    document = markdown()
    assert "the server whose `/metrics` is read." in document
    assert str(ROOT) not in document
