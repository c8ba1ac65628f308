"""A Parquet file of stored history: its columns with their types, and what it says of itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Integer

from contract.frame import PHASES
from controlplane.history.models import LayerSummary
from controlplane.history.series import LAYER_COLUMNS
from trimtab.errors import InputError
from trimtab.output_file import output_file

LOADS, LAYERS = "loads", "layers"
METADATA_PREFIX = "trimtab."
Columns = Mapping[str, Any]
"""A batch: `start` (unix seconds) and `seconds` of each row, and the other columns by name."""


@dataclass(frozen=True, slots=True)
class Written:
    """Rows of a file, and the time that their intervals span, unix seconds."""

    rows: int
    start: float
    end: float


def write(
    out: Path,
    batches: Iterable[Columns],
    *,
    table: str,
    metadata: Mapping[str, str],
    force: bool = False,
) -> Written:
    """Write batches; the file appears under its name only when it is whole.

    `force` replaces a regular file that is there.

    `t0` is a UTC timestamp in µs, `engine` and `phase` are dictionaries; `metadata` becomes the
    file's, with the prefix `trimtab.`.

    Raises:
        InputError: pyarrow is missing, `out` cannot be written, or there is no row.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("the export needs pyarrow: pip install 'trimtab[tools]'") from None
    said = {f"{METADATA_PREFIX}{name}": value for name, value in metadata.items()}
    schema = _schema(pa, table).with_metadata(said)
    rows, start, end = 0, np.inf, -np.inf
    with output_file(out, "--out", force=force) as unfinished:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for batch in batches:
                starts, seconds = np.asarray(batch["start"]), np.asarray(batch["seconds"])
                if not len(starts):
                    continue
                writer.write_table(_table(pa, schema, batch, metadata["engine"]))
                rows += len(starts)
                start = min(start, float(starts.min()))
                end = max(end, float((starts + seconds).max()))
        if not rows:
            raise InputError("nothing is stored in this span")
    return Written(rows, start, end)


def _schema(pa: Any, table: str) -> Any:
    """Columns of a file. Loads: one row an interval, phase, layer and expert."""
    text = pa.dictionary(pa.int32(), pa.string())
    fields = {
        "t0": pa.timestamp("us", tz="UTC"), "seconds": pa.float64(), "engine": text,
    }  # fmt: skip
    if table == LOADS:
        fields |= {
            "phase": text, "layer": pa.int32(), "expert": pa.int32(), "assignments": pa.int64(),
        }  # fmt: skip
        return pa.schema(fields)
    stored = LayerSummary.__table__.c
    fields["layer"] = pa.int32()
    for name in LAYER_COLUMNS:
        fields[name] = pa.int64() if isinstance(stored[name].type, Integer) else pa.float64()
    return pa.schema(fields)


def _table(pa: Any, schema: Any, batch: Columns, engine: str) -> Any:
    starts = np.asarray(batch["start"], dtype=np.float64)
    zeros = np.zeros(len(starts), dtype=np.int32)
    columns = {
        "t0": pa.array(np.round(starts * 1e6).astype(np.int64)).cast(schema.field("t0").type),
        "engine": pa.DictionaryArray.from_arrays(zeros, [engine]),
    }
    if "phase" in schema.names:
        columns["phase"] = pa.DictionaryArray.from_arrays(batch["phase"], list(PHASES))
    for name in schema.names:
        if name not in columns:
            columns[name] = pa.array(batch[name], type=schema.field(name).type)
    return pa.table([columns[name] for name in schema.names], schema=schema)
