"""Training on several devices or machines: what `TF_CONFIG` says, and how each mode does it."""

from estimator_lib.cluster.tf_config import (
    CHIEF_ROLES,
    ROLES,
    Cluster,
    check_asynchronous,
    read_tf_config,
)

__all__ = ['CHIEF_ROLES', 'ROLES', 'Cluster', 'check_asynchronous', 'read_tf_config']
