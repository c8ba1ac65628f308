"""`trimtab history export`."""

import os
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from controlplane.db.database import open_database
from controlplane.history.series import LAYER_COLUMNS
from tests.support.frames import START, make_frame, received
from tests.support.history import filled
from trimtab.commands.history import command


@pytest.fixture
def stored(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_DATABASE_URL", sqlite_url)
    database = open_database(sqlite_url)
    history = filled(database)
    yield history
    database.close()


def _export(tmp_path, *more: str, start: object = START, end: object = START + 120):
    out = tmp_path / "out.parquet"
    arguments = ["export", "--engine", "e0", "--start", str(start), "--end", str(end)]
    result = CliRunner().invoke(command, [*arguments, "--out", str(out), *more])
    return result, out


@pytest.mark.parametrize(("tier", "intervals"), [("1", 12), ("10", 12), ("60", 2)])
def test_loads_add_up_to_the_stored_frames(stored, tmp_path, tier, intervals):
    result, out = _export(tmp_path, "--tier", tier)
    assert result.exit_code == 0, result.output
    table = pq.read_table(out)
    window = stored.window("e0", START, START + 120)
    assert window is not None
    assert len(set(table["t0"].to_pylist())) == intervals
    summed = np.zeros(window.arrays["assignments"].shape[1:], dtype=np.int64)
    np.add.at(
        summed, (table["layer"].to_numpy(), table["expert"].to_numpy()),
        table["assignments"].to_numpy(),
    )  # fmt: skip
    assert np.array_equal(summed, window.arrays["assignments"].sum(axis=0))
    assert set(table["phase"].to_pylist()) == {"prefill", "decode"}


def test_the_frames_of_a_year_are_those_of_the_minutes_that_there_are(stored, tmp_path):
    whole = {"start": START - 365 * 86400, "end": START + 86400}
    assert stored.minutes("e0", *whole.values()) == [START, START + 60, START + 120]
    result, out = _export(tmp_path, "--tier", "1", **whole)
    assert result.exit_code == 0, result.output
    assert len(set(pq.read_table(out)["t0"].to_pylist())) == 18


def test_layers_are_one_row_an_interval(stored, tmp_path):
    result, out = _export(tmp_path, "--table", "layers", start="2023-11-14T22:14")
    assert result.exit_code == 0, result.output
    assert pq.read_table(out).num_rows == 4


@pytest.mark.parametrize(("tier", "seconds"), [("1", 10), ("10", 10), ("60", 60)])
def test_loads_are_typed_alike_in_every_tier(stored, tmp_path, tier, seconds):
    _, out = _export(tmp_path, "--tier", tier)
    table = pq.read_table(out)
    text = pa.dictionary(pa.int32(), pa.string())
    assert table.schema.remove_metadata() == pa.schema(
        {
            "t0": pa.timestamp("us", tz="UTC"), "seconds": pa.float64(), "engine": text,
            "phase": text, "layer": pa.int32(), "expert": pa.int32(), "assignments": pa.int64(),
        }
    )  # fmt: skip
    assert table["t0"][0].as_py() == datetime.fromtimestamp(START, UTC)
    assert set(table["seconds"].to_pylist()) == {seconds}
    assert set(table["engine"].to_pylist()) == {"e0"}


def test_layers_have_times_and_lengths_too(stored, tmp_path):
    _, out = _export(tmp_path, "--table", "layers")
    table = pq.read_table(out)
    assert table.schema.field("t0").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("assignments").type == pa.int64()
    assert table.schema.field("load_cv_ratio").type == pa.float64()
    assert table.column_names[-len(LAYER_COLUMNS) :] == list(LAYER_COLUMNS)
    assert set(table["seconds"].to_pylist()) == {60}
    assert set(table["engine"].to_pylist()) == {"e0"}


def test_a_file_says_what_it_is_of(stored, tmp_path):
    stored.append([received(make_frame(18, started=START + 180, config_generation=2, experts=8))])
    _, out = _export(tmp_path, "--tier", "10", start="2023-11-14T22:14", end=START + 300)
    metadata = pq.read_schema(out).metadata
    assert {key.decode(): value.decode() for key, value in metadata.items()} == {
        "trimtab.engine": "e0", "trimtab.model": "tiny", "trimtab.table": "loads",
        "trimtab.tier": "10", "trimtab.config_generations": "1,2",
        "trimtab.start": "2023-11-14T22:14:00Z", "trimtab.end": "2023-11-14T22:19:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tier", "start", "end", "said"),
    [
        ("60", 0, 120, ["22:14:00Z to 2023-11-14T22:16:00Z"]),
        ("60", 30, 120, ["covers 2023-11-14T22:14:00Z", "begins before the start"]),
        ("60", 0, 600, ["to 2023-11-14T22:16:00Z", "nothing is stored", "--tier 1 has them"]),
        ("1", 0, 600, ["to 2023-11-14T22:17:00Z", "no frame is stored"]),
    ],
)
def test_the_export_says_what_it_covers(stored, tmp_path, tier, start, end, said):
    result, _ = _export(tmp_path, "--tier", tier, start=START + start, end=START + end)
    assert all(part in result.output for part in said), result.output
    whole = start == 0 and end == 120
    assert ("stored" in result.output or "before" in result.output) != whole


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--engine", "nobody"), "nobody"),
        (("--start", "yesterday"), "yesterday"),
        (("--end", "0"), "not before"),
        (("--start", "1", "--end", "2"), "nothing is stored"),
        (("--table", "layers", "--tier", "10"), "60 and 3600"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(stored, tmp_path, more, said):
    result, out = _export(tmp_path, *more)
    assert result.exit_code == 2
    assert said in result.output
    assert not out.exists()


def test_a_file_that_is_there_is_kept_unless_forced(stored, tmp_path):
    (tmp_path / "out.parquet").write_text("theirs")
    result, out = _export(tmp_path)
    assert result.exit_code == 2
    assert f"--out {out} is there already" in result.output
    assert out.read_text() == "theirs"
    result, out = _export(tmp_path, "--force")
    assert result.exit_code == 0, result.output
    assert pq.read_table(out).num_rows > 0


@pytest.mark.parametrize("out", ["", "pipe", "a" * 300])
def test_a_path_that_cannot_be_written_is_named(stored, tmp_path, out):
    os.mkfifo(tmp_path / "pipe")
    result, _ = _export(tmp_path, "--out", out, "--force")
    assert result.exit_code == 2
    assert f"--out {out}".strip() in result.output
    assert "database" not in result.output
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_that_is_not_there_is_named(stored, tmp_path):
    result, _ = _export(tmp_path, "--out", "nowhere/x.parquet")
    assert result.exit_code == 2
    assert f"there is no folder {tmp_path}/nowhere" in result.output


def test_a_database_without_tables_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result, _ = _export(tmp_path)
    assert result.exit_code == 2
    assert "--config" in result.output
    assert "trimtab db upgrade" in result.output
    assert list(tmp_path.iterdir()) == []
