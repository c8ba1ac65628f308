"""A throw-away PostgreSQL for tests; they skip, with the reason, where none is installed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trimtab.bench import postgresql_cluster
from trimtab.bench.postgresql_cluster import Cluster

__all__ = ["Cluster", "cluster"]


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a server that does not wait for the disk; skips where none is installed."""
    if postgresql_cluster.binaries() is None:
        pytest.skip("Debian's postgresql is not installed")
    with postgresql_cluster.cluster(fsync=False) as server:
        yield server
