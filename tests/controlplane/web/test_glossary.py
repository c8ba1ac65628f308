"""The words of the UI."""

from pathlib import Path

from controlplane.web.glossary import SECTIONS, TERMS, markdown

ROOT = Path(__file__).parents[3]


def test_the_document_is_what_the_pages_say():
    kept = (ROOT / "docs" / "glossary.md").read_text()
    assert kept == markdown(), "run `make generate` and commit"


def test_every_word_is_explained_once_and_shortly():
    every = [term for terms in SECTIONS.values() for term in terms]
    assert len({term.anchor for term in every}) == len(TERMS) == len(every)
    assert max(len(term.told) for term in every) < 260
    assert all(term.told.endswith(".") for term in every)


def test_the_words_that_a_newcomer_meets_first_are_there():
    wanted = {
        "expert", "rank", "tau", "card CV", "overflow", "rung", "gate mass kept", "probe loss",
        "settle", "verify", "canary", "budget", "burn", "last known good",
    }  # fmt: skip
    assert wanted <= TERMS.keys()
