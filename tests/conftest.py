"""What every test shares: no proxy, few threads, and a count of skips with their reasons."""

import os
from pathlib import Path

from hypothesis import settings

pytest_plugins = ["tests.support.database_fixtures"]

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
    os.environ.pop(name, None)
# Triton decides at its import whether kernels are interpreted: settled here, before any test.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The same examples on every machine; `--hypothesis-profile search` looks further.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("repeatable")
