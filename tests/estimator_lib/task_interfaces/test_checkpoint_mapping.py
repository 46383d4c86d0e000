"""Defaults of a task that knows checkpoints of its own program only."""

import pytest

from estimator_lib.task_interfaces.checkpoint_mapping import CheckpointMapping


class Own(CheckpointMapping):
    """Restores by name."""

    name = 'own'

    def restore_map(self, variables, checkpoint_type):
        return {variable.name: variable for variable in variables}


def test_other_checkpoints_are_unknown():
    mapping = Own()
    assert mapping.object_paths([], 'detection') == {}
    assert mapping.foreign_checkpoint(['weights']) == ''
    assert mapping.last_layer_scopes() == ()


def test_a_task_maps_its_variables():
    with pytest.raises(TypeError, match='restore_map'):
        CheckpointMapping()
