"""The op of TFLite's interpreter in a graph by hand."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection import fields
from model_fns.detection.deployment import file_suppression
from protos import pipeline_pb2
from vision_extras.recover.artifacts import graphs
from vision_extras.recover.detection import device_op
from vision_extras.recover.facts import Proposal, Refusal

ANCHORS = np.array([[0.5, 0.5, 0.2, 0.3], [0.5, 0.5, 0.4, 0.4]], np.float32)


def build(anchors=ANCHORS, gathers=False):
    with tf.Graph().as_default() as graph:
        if anchors is not None:
            tf.constant(anchors, name='anchors')
        else:
            tf.compat.v1.placeholder(tf.float32, name='anchors')
    graph_def = graph.as_graph_def()
    inputs = ['boxes', 'scores', 'anchors']
    if gathers:
        for name in inputs:
            graph_def.node.add(name=f'best_{name}', op='GATHER', input=[name, 'rows'])
        inputs = [f'best_{name}' for name in inputs]
        graph_def.node.add(name='inside', op='SELECT_V2', input=['is_inside', 'best_scores', 'low'])
        inputs[1] = 'inside'
    node = graph_def.node.add(name='last', op=file_suppression.TFLITE_OP, input=inputs)
    numbers = {
        'y_scale': 10.0, 'x_scale': 9.0, 'h_scale': 5.0, 'w_scale': 4.0,
        'nms_iou_threshold': 0.6, 'nms_score_threshold': 0.25,
    }  # fmt: skip
    for name, value in numbers.items():
        node.attr[name].f = value
    node.attr['max_detections'].i = 10
    node.attr['num_classes'].i = 3
    return graphs.Graph(graph_def)


@pytest.mark.parametrize('gathers', [False, True])
def test_attributes_become_fields(gathers):
    graph = build(gathers=gathers)
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    anchors = device_op.read(graph, device_op.find(graph), 4, proposal)
    ssd = proposal.config.model.ssd
    np.testing.assert_array_equal(anchors, ANCHORS)
    coder = ssd.box_coder.faster_rcnn_box_coder
    scales = (coder.y_scale, coder.x_scale, coder.height_scale, coder.width_scale)
    assert scales == (10, 9, 5, 4)
    suppression = ssd.post_processing.batch_non_max_suppression
    assert (suppression.score_threshold, suppression.max_total_detections) == (0.25, 10)
    assert ssd.add_background_class
    assert proposal.outputs == {
        fields.RAW_DETECTION_SCORES: 'scores:0',
        fields.BOX_ENCODINGS: 'boxes:0',
    }


def test_anchors_that_are_no_constant_are_refused():
    graph = build(anchors=None)
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    with pytest.raises(Refusal, match='the anchors of last are no constant'):
        device_op.read(graph, 'last', 4, proposal)
