"""The knobs that a governor may move."""

from enum import StrEnum


class Knob(StrEnum):
    """A subset of the runtime config; names equal the config's fields."""

    CAPACITY_FACTOR = "capacity_factor"
    CHUNK_SIZE = "chunk_size"
    MAX_CONCURRENCY = "max_concurrency"
    ROUTER_BIAS = "router_bias"


class Mode(StrEnum):
    """How far a policy may go with a knob."""

    OFF = "off"
    SHADOW = "shadow"
    APPROVE = "approve"
    AUTO = "auto"
