"""Where the tables are declared: `controlplane/<package>/models.py`, loaded by name.

A package that adds tables adds its module here and a revision in `migrations/versions`.
"""

import importlib

from sqlalchemy import MetaData

from controlplane.db.base import Base

MODEL_MODULES: tuple[str, ...] = (
    "controlplane.actuator.models",
    "controlplane.audit.models",
    "controlplane.auth.models",
    "controlplane.history.models",
    "controlplane.scheduling.models",
)


def load_models() -> MetaData:
    """Import every model module and give the metadata of all tables."""
    for name in MODEL_MODULES:
        importlib.import_module(name)
    return Base.metadata
