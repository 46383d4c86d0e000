"""Outputs of detectors by name."""

import tensorflow as tf

from protos import pipeline_pb2
from vision_extras.recover.artifacts import graphs, reading
from vision_extras.recover.detection import decoding, outputs
from vision_extras.recover.facts import Proposal


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


def test_raw_scores_that_are_logits_are_not_compared():
    with tf.Graph().as_default() as graph:
        logits = tf.constant([[[1.0, 2.0]]], name='raw_detection_scores')
        tf.nn.softmax(logits, name='converted')
    found = graphs.Graph(graph.as_graph_def())
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), 'x')
    known = {'raw_detection_scores': 'raw_detection_scores:0', 'detection_boxes': 'b:0'}
    scores = decoding.Scores('SOFTMAX', 'converted:0')
    outputs.add_compared(known, found, scores, [], proposal)
    assert proposal.outputs == {'raw_detection_scores': 'converted:0', 'detection_boxes': 'b:0'}
    assert proposal.counts == {'detection_boxes': 'num_detections'}
    assert 'are logits' in proposal.unknown[0] and 'clips boxes' in proposal.unknown[1]
