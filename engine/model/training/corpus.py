"""The training text: three domains drawn from the interpreter's own standard library.

The same interpreter gives the same bytes in the same order: documents are sorted by name, and a
document is held out when the SHA-256 of its name says so, never by chance.
"""

import ast
import calendar
import hashlib
import html.entities
import importlib
import inspect
import sysconfig
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HELD_OUT_ONE_IN = 24
PROSE_DOCSTRING_BYTES = 120
"""A docstring of at least this length is prose and taken out of the code; shorter ones stay."""
_NO_CODE = frozenset({"test", "tests", "idle_test", "lib2to3", "pydoc_data", "site-packages"})
_NAMED = range(0x20, 0x3000)
_IDEOGRAPHS = (range(0x3400, 0xA000), range(0xAC00, 0xD7B0), range(0x17000, 0x18D10))
_PROPERTIES = range(0x20, 0x1FC00)
_BLOCK = 64
_YEARS = range(1900, 2101)
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Document:
    """One text: its name decides the split, so all that comes of one file shares a name."""

    name: str
    text: bytes

    @property
    def is_held_out(self) -> bool:
        """Whether this document is never trained on (1 in `HELD_OUT_ONE_IN` by name)."""
        digest = hashlib.sha256(self.name.encode()).digest()
        return int.from_bytes(digest[:4], "big") % HELD_OUT_ONE_IN == 0


@dataclass(frozen=True, slots=True)
class Domain:
    """One kind of text, split by document."""

    name: str
    train: tuple[Document, ...]
    held_out: tuple[Document, ...]


def read_corpus(library: Path | None = None) -> tuple[Domain, ...]:
    """The domains code, prose and table; `library` None is this interpreter's standard library."""
    root = library or Path(sysconfig.get_paths()["stdlib"])
    sources = list(_sources(root))
    code, prose = _code(sources), _prose(sources, root)
    return _split("code", code), _split("prose", prose), _split("table", _tables(sources))


def corpus_hash(domains: tuple[Domain, ...]) -> str:
    """SHA-256 over every document in order: names the exact text of a training run."""
    digest = hashlib.sha256()
    for domain in domains:
        for document in (*domain.train, *domain.held_out):
            digest.update(document.name.encode() + b"\0" + document.text + b"\0")
    return digest.hexdigest()


def _split(name: str, documents: Iterator[Document]) -> Domain:
    ordered = sorted(documents, key=lambda document: document.name)
    return Domain(
        name=name,
        train=tuple(document for document in ordered if not document.is_held_out),
        held_out=tuple(document for document in ordered if document.is_held_out),
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """One Python file: its text, and its long docstrings by the lines that they take."""

    name: str
    text: bytes
    docstrings: tuple[tuple[ast.Expr, str], ...]

    @property
    def is_charmap(self) -> bool:
        """Whether it is a decoding table with little code around it."""
        return self.name.startswith("encodings/") and b"decoding_table = (" in self.text


def _sources(root: Path) -> Iterator[_Source]:
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        # `_sysconfigdata` holds the build paths of one machine.
        is_generated = relative.name.startswith("_sysconfigdata")
        if not is_generated and not _NO_CODE.intersection(relative.parts):
            text = path.read_bytes()
            yield _Source(relative.as_posix(), text, tuple(_docstrings(text)))


def _docstrings(source: bytes) -> Iterator[tuple[ast.Expr, str]]:
    """Every long docstring of a source: its statement, and its text as written."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(node, _Documented) and node.body else None
        if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
            continue
        text = first.value.value
        if isinstance(text, str) and len(text) >= PROSE_DOCSTRING_BYTES:
            yield first, text


def _code(sources: list[_Source]) -> Iterator[Document]:
    for source in sources:
        if source.text.strip() and not source.is_charmap and source.name != "html/entities.py":
            yield Document(source.name, _without_prose(source))


def _without_prose(source: _Source) -> bytes:
    """The source without the lines of its long docstrings."""
    lines = source.text.splitlines(keepends=True)
    for node, _ in source.docstrings:
        last = node.end_lineno or node.lineno
        lines[node.lineno - 1 : last] = [b""] * (last - node.lineno + 1)
    return b"".join(lines)


def _prose(sources: list[_Source], root: Path) -> Iterator[Document]:
    seen: set[str] = set()
    for source in sources:
        for node, text in source.docstrings:
            # The library repeats itself; a repeated text could be held out and trained on.
            if text not in seen:
                seen.add(text)
                yield Document(f"{source.name}:{node.lineno}", inspect.cleandoc(text).encode())
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    for topic, body in topics.items():
        yield Document(f"topic {topic}", body.strip().encode())
    for path in sorted(root.rglob("*.txt")):
        relative = path.relative_to(root)
        if not _NO_CODE.intersection(relative.parts):
            yield Document(relative.as_posix(), path.read_bytes())


def _tables(sources: list[_Source]) -> Iterator[Document]:
    for source in sources:
        if source.is_charmap:
            start = source.text.index(b"decoding_table = (")
            yield Document(source.name, source.text[start:])
    for start in range(0, _PROPERTIES.stop, _BLOCK):
        points = range(start, start + _BLOCK)
        for kind, row in (("names", _name_row), ("properties", _property_row)):
            rows = [line for point in points if (line := row(point))]
            if rows:
                yield Document(f"{kind} {start:05X}", "\n".join(rows).encode())
    for initial in sorted({name[0] for name in html.entities.html5}):
        entities = sorted(item for item in html.entities.html5.items() if item[0][0] == initial)
        rows = [
            "\t".join((name, *(str(ord(character)) for character in text)))
            for name, text in entities
        ]
        yield Document(f"entities {initial}", "\n".join(rows).encode())
    for year in _YEARS:
        yield Document(f"calendar {year}", calendar.TextCalendar().formatyear(year).encode())


def _name_row(point: int) -> str | None:
    """`0041;LATIN CAPITAL LETTER A;Lu`, None where the point has no name."""
    name = unicodedata.name(chr(point), "") if point in _NAMED else ""
    return f"{point:04X};{name};{unicodedata.category(chr(point))}" if name else None


def _property_row(point: int) -> str | None:
    """A row of the character database without the name, None where nothing is assigned."""
    character = chr(point)
    category = unicodedata.category(character)
    if category in {"Cn", "Co", "Cs"} or any(point in block for block in _IDEOGRAPHS):
        return None
    fields = (
        f"{point:04X}", category, str(unicodedata.combining(character)),
        unicodedata.bidirectional(character), unicodedata.east_asian_width(character),
        unicodedata.decomposition(character),
    )  # fmt: skip
    return ";".join(fields)
