"""Keys that the features of every task have."""

from estimator_lib.task_interfaces import tensors


def test_keys_are_those_of_features_in_graphs_that_are_saved():
    assert (tensors.IMAGE, tensors.SOURCE_ID) == ('image', 'source_id')
