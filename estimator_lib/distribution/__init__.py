"""Training on several devices or machines: `TF_CONFIG`, the modes, and their parts of graphs."""

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
    cluster_from_run_config,
    read_tf_config,
)

__all__ = [
    'CHIEF_ROLES',
    'ROLES',
    'Cluster',
    'Mode',
    'Plan',
    'alone',
    'cluster_from_run_config',
    'create_plan',
    'idle_fields',
    'read_tf_config',
    'require_own_batches',
]
