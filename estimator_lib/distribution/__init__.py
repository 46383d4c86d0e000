"""Training on several devices or machines: what `TF_CONFIG` says, and how each mode does it."""

from estimator_lib.distribution.modes import (
    Mode,
    Plan,
    alone,
    create_plan,
    idle_fields,
    require_own_batches,
)
from estimator_lib.distribution.tf_config import (
    CHIEF_ROLES,
    ROLES,
    Cluster,
    cluster_of,
    read_tf_config,
)

__all__ = [
    'CHIEF_ROLES',
    'ROLES',
    'Cluster',
    'Mode',
    'Plan',
    'alone',
    'cluster_of',
    'create_plan',
    'idle_fields',
    'read_tf_config',
    'require_own_batches',
]
