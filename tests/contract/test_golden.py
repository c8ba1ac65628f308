"""A change here is a change of the wire: a minor may add fields, only a major may change one."""

import json

import numpy as np
import pytest
from pydantic import BaseModel

from contract.admin import Capabilities, ConfigState
from contract.frame import ARRAYS, FrameHeader
from contract.frame_codec import Frame, decode, encode
from contract.problem import Problem
from contract.runtime_config import RuntimeConfig
from tests.support.golden import FOLDER, contains, golden, golden_text

BODIES: dict[str, type[BaseModel]] = {
    "runtime_config": RuntimeConfig,
    "config_state": ConfigState,
    "capabilities": Capabilities,
    "problem": Problem,
    "frame_header": FrameHeader,
}


def test_every_golden_file_is_held_to() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(BODIES)


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_golden_body_is_read_and_written_unchanged(name: str) -> None:
    body = BODIES[name].model_validate_json(golden_text(name))
    assert contains(json.loads(body.model_dump_json()), golden(name))


def test_the_golden_config_has_its_golden_hash() -> None:
    config = RuntimeConfig.model_validate(golden("runtime_config"))
    state = ConfigState.model_validate(golden("config_state"))
    assert state.document.config == config
    assert state.document.config_hash == config.content_hash()
    assert state.etag == f'"{state.document.generation}-{config.content_hash()}"'


def test_the_golden_header_travels_in_a_frame() -> None:
    header = FrameHeader.model_validate(golden("frame_header"))
    counts = np.arange(header.layers, dtype=np.uint32)
    frame = decode(encode(Frame(header=header, arrays={"overflow": counts})))
    assert contains(json.loads(frame.header.model_dump_json()), golden("frame_header"))
    assert frame.arrays["overflow"].shape == header.shape(ARRAYS["overflow"])
