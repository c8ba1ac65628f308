"""HTTP names that both planes must spell alike."""

IF_MATCH = "If-Match"
FENCING_EPOCH = "X-Fencing-Epoch"
IDEMPOTENCY_KEY = "Idempotency-Key"
ETAG = "ETag"
RETRY_AFTER = "Retry-After"
REQUEST_ID = "X-Request-Id"

ADMIN_PREFIX = "/admin/v1"
LOGS_PATH = "/v1/logs"
ALERTMANAGER_PATH = "/api/v1/alertmanager"
FRAME_EVENT_NAME = "moe.frame"
CONTENT_TYPE_PROTOBUF = "application/x-protobuf"

OPERATOR_EPOCH = 0
"""Epoch of a human who acts on an engine without a control plane: fencing is not checked."""


def config_etag(generation: int, config_hash: str) -> str:
    """The ETag of a generation, quotes included."""
    return f'"{generation}-{config_hash}"'
