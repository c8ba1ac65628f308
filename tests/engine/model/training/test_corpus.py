import sysconfig
from pathlib import Path

import numpy as np
import pytest

from engine.model.training.corpus import Document, Domain, corpus_hash, read_corpus
from engine.model.training.probe_text import probe_text
from engine.model.training.shape import BOS, EOS
from engine.model.training.stream import SHARES, Streams, join

LIBRARY = Path(sysconfig.get_paths()["stdlib"]) / "asyncio"


@pytest.fixture(scope="module")
def corpus() -> tuple[Domain, ...]:
    return read_corpus(LIBRARY)


def test_the_same_interpreter_gives_the_same_text(corpus: tuple[Domain, ...]) -> None:
    assert corpus_hash(read_corpus(LIBRARY)) == corpus_hash(corpus)


def test_every_domain_has_text_to_train_on_and_text_held_out(corpus: tuple[Domain, ...]) -> None:
    assert [domain.name for domain in corpus] == list(SHARES)
    for domain in corpus:
        train = sum(len(doc.text) for doc in domain.train)
        held_out = sum(len(doc.text) for doc in domain.held_out)
        assert 0.005 < held_out / train < 0.2


def test_no_held_out_docstring_stands_in_the_training_code(corpus: tuple[Domain, ...]) -> None:
    code, prose, _ = corpus
    sources = b"\n".join(document.text for document in code.train)
    docstrings = [document for document in prose.held_out if ".py:" in document.name]
    assert len(docstrings) > 3
    for document in docstrings:
        longest = max(document.text.splitlines(), key=len)
        assert longest not in sources, document.name


def test_no_prose_is_both_trained_on_and_held_out(corpus: tuple[Domain, ...]) -> None:
    prose = corpus[1]
    assert not {doc.text for doc in prose.train} & {doc.text for doc in prose.held_out}


def test_no_path_of_this_machine_is_in_the_corpus(corpus: tuple[Domain, ...]) -> None:
    names = [doc.name for domain in corpus for doc in (*domain.train, *domain.held_out)]
    assert not any(name.startswith("/") or "_sysconfigdata" in name for name in names)


def test_the_probe_text_has_a_part_of_each_domain(corpus: tuple[Domain, ...]) -> None:
    text = probe_text(corpus)
    assert 200 <= len(text.encode()) <= 1500
    assert text == probe_text(corpus)


def test_documents_are_joined_between_beginning_and_end() -> None:
    stream = join((Document("a", b"xy"), Document("b", b"z")))
    assert stream.tolist() == [BOS, 120, 121, EOS, BOS, 122, EOS]


def test_windows_are_one_token_longer_than_their_length(corpus: tuple[Domain, ...]) -> None:
    streams = Streams.of(corpus)
    first = streams.draw(np.random.default_rng(0), 3, 16)
    assert first.shape == (3, 17)
    assert first.equal(streams.draw(np.random.default_rng(0), 3, 16))
