"""Print an `.env` for docker-compose.yml with fresh secrets: python3 deploy/new_env.py > .env.

Standard library only, so that it runs before anything is installed. An engine stores its tokens as
SHA-256; the file therefore holds a token for who sends it, and its hash for who checks it.
"""

import hashlib
import secrets
import sys

_HASHED = ("ENGINE_ADMIN_TOKEN", "ENGINE_VIEWER_TOKEN")
_PLAIN = (
    "TELEMETRY_TOKEN", "ALERTMANAGER_TOKEN", "CONTROL_ADMIN_TOKEN", "POSTGRES_PASSWORD",
    "GRAFANA_ADMIN_PASSWORD",
)  # fmt: skip


def env_lines() -> list[str]:
    """One NAME=value a line."""
    lines: list[str] = []
    for name in _HASHED:
        token = "ttk_" + secrets.token_urlsafe(32)
        digest = hashlib.sha256(token.encode()).hexdigest()
        lines += [f"{name}={token}", f"{name}_SHA256={digest}"]
    lines += [f"{name}={secrets.token_urlsafe(32)}" for name in _PLAIN]
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join(env_lines()) + "\n")
