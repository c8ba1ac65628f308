"""Stored snapshots and the decisions that they must keep leading to: a change here is a change of
behaviour, and its files are to be read in review."""

import json
from pathlib import Path

import pytest

from controlplane.policy.builtin import BUILTIN
from controlplane.policy.decide import decide
from controlplane.policy.decision import Decision
from controlplane.policy.snapshot import Snapshot

FILES = sorted((Path(__file__).parent / "golden").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_stored_snapshot_leads_to_its_stored_decision(file):
    stored = json.loads(file.read_text("utf-8"))
    decision = decide(Snapshot.model_validate(stored["snapshot"]), BUILTIN[stored["policy"]])
    assert decision == Decision.model_validate(stored["decision"])


def test_the_files_cover_every_builtin_that_decides_by_its_own_rule():
    policies = {json.loads(file.read_text("utf-8"))["policy"] for file in FILES}
    assert policies == set(BUILTIN)
