"""Outputs of detectors by name."""

import tensorflow as tf

from vision_extras.recover.artifacts import graphs, reading
from vision_extras.recover.detection import outputs


def test_outputs_of_a_graph_are_found_by_their_published_names():
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name='detection_scores')
        tf.constant(1.0, name='other')
    found = graphs.Graph(graph.as_graph_def())
    artifact = reading.Artifact('a.pb', reading.FROZEN_GRAPH, {}, found)
    assert outputs.find(artifact) == {'detection_scores': 'detection_scores:0'}
    assert outputs.ends({'detection_scores': 'call/scores:3'}) == ['call/scores']


def test_outputs_of_a_signature_are_kept():
    artifact = reading.Artifact('a', reading.SAVED_MODEL, {}, None, {'detection_boxes': 'x:0'})
    assert outputs.find(artifact) == {'detection_boxes': 'x:0'}
