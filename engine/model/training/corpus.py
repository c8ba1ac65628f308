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
import mimetypes
import sysconfig
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HELD_OUT_ONE_IN = 16
MIN_DOCSTRING_BYTES = 120
_NO_CODE = frozenset({"test", "tests", "idle_test", "lib2to3", "pydoc_data", "site-packages"})
_IDEOGRAPHS = (range(0x3400, 0xA000), range(0xAC00, 0xD7B0), range(0x17000, 0x18D10))
_LAST_CODE_POINT = 0x1FBFF
_BLOCK = 64


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


def read_corpus() -> tuple[Domain, ...]:
    """The domains code, prose and table of this interpreter's standard library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    makers = {"code": _code(root), "prose": _prose(root), "table": _tables(root)}
    return tuple(_split(name, documents) for name, documents in makers.items())


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


def _sources(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        # `_sysconfigdata` holds the build paths of one machine.
        is_generated = relative.name.startswith("_sysconfigdata")
        if not is_generated and not _NO_CODE.intersection(relative.parts):
            yield relative.as_posix(), path.read_bytes()


def _is_charmap(name: str, text: bytes) -> bool:
    return name.startswith("encodings/") and b"decoding_table = (" in text


def _code(root: Path) -> Iterator[Document]:
    for name, text in _sources(root):
        if text.strip() and not _is_charmap(name, text) and name != "html/entities.py":
            yield Document(name, text)


def _prose(root: Path) -> Iterator[Document]:
    for name, text in _sources(root):
        docstrings = "\n\n".join(_docstrings(text))
        if docstrings:
            yield Document(name, docstrings.encode())
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    for topic, body in topics.items():
        yield Document(f"topic {topic}", body.strip().encode())
    for path in sorted(root.rglob("*.txt")):
        relative = path.relative_to(root)
        if not _NO_CODE.intersection(relative.parts):
            yield Document(relative.as_posix(), path.read_bytes())


def _docstrings(source: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        if text and len(text) >= MIN_DOCSTRING_BYTES:
            yield inspect.cleandoc(text)


def _tables(root: Path) -> Iterator[Document]:
    for name, text in _sources(root):
        if _is_charmap(name, text):
            yield Document(name, text[text.index(b"decoding_table = (") :])
    for start in range(0, _LAST_CODE_POINT, _BLOCK):
        rows = [row for point in range(start, start + _BLOCK) if (row := _character_row(point))]
        if rows:
            yield Document(f"characters {start:05X}", "\n".join(rows).encode())
    for initial in sorted({name[0] for name in html.entities.html5}):
        entries = sorted(item for item in html.entities.html5.items() if item[0][0] == initial)
        rows = [
            f"    '{name}': '{text.encode('unicode_escape').decode()}'," for name, text in entries
        ]
        yield Document(f"entities {initial}", "\n".join(rows).encode())
    types = mimetypes.MimeTypes().types_map[1]
    yield Document(
        "mime types", "\n".join(f"{kind:<60}{suffix}" for suffix, kind in types.items()).encode()
    )
    for year in range(1990, 2040):
        yield Document(f"calendar {year}", calendar.TextCalendar().formatyear(year).encode())


def _character_row(point: int) -> str | None:
    """One row in the shape of the Unicode character database: code; name; category; ..."""
    if any(point in block for block in _IDEOGRAPHS):
        return None
    character = chr(point)
    name = unicodedata.name(character, "")
    if not name:
        return None
    fields = (
        f"{point:04X}", name, unicodedata.category(character),
        str(unicodedata.combining(character)), unicodedata.bidirectional(character),
        unicodedata.decomposition(character), unicodedata.east_asian_width(character),
    )  # fmt: skip
    return ";".join(fields)
