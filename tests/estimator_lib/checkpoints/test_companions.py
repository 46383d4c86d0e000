import tensorflow as tf

from estimator_lib.checkpoints import companions

tf1 = tf.compat.v1


def test_companions_are_known_by_kind_and_come_after_the_model():
    with tf.Graph().as_default() as graph:
        own = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
        beside = tf1.get_variable('x/min', [])
        model = tf1.get_variable('weights', [2], collections=own)
        tf1.get_variable('slot', [])
        assert companions.names_by_kind(graph) == {}
        assert companions.with_model(graph) == [model]
        companions.add('x/min', 'ranges')
        companions.add('x/min', 'ranges')  # by a second use of a layer
        assert companions.names_by_kind(graph) == {'ranges': {'x/min'}}
        assert companions.with_model(graph) == [model, beside]
        # A graph is saved with its collections.
        assert 'companions/ranges' in tf1.train.export_meta_graph().collection_def
