"""Defaults of a task that knows checkpoints of its own program only."""

import tensorflow as tf

from estimator_lib.task_interfaces.checkpoint_mapping import CheckpointMapping


def test_variables_have_their_own_names_and_other_checkpoints_are_unknown():
    mapping = CheckpointMapping()
    with tf.Graph().as_default():
        weights = tf.compat.v1.get_variable('net/weights', [2])
        assert mapping.restore_map([weights], '') == {'net/weights': weights}
    assert mapping.object_paths([], 'detection') == {}
    assert mapping.foreign_checkpoint(['weights']) == ''
    assert mapping.last_layer_scopes == () and mapping.asset_files == {}
