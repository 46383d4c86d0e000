"""Round trips of single-shot detectors: artifact -> config and checkpoint."""

import os
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.detection import fields
from protos import pipeline_pb2
from tests import tiny_detection, tiny_rotated
from tests.vision_extras.recover import recovered
from vision_extras.recover.detection import single_shot
from vision_extras.recover.facts import Proposal

tf1 = tf.compat.v1

HYPERPARAMS = """
  activation: RELU_6
  regularizer { l2_regularizer { weight: 0.00004 } }
  initializer { truncated_normal_initializer { stddev: 0.03 mean: 0.0 } }
  batch_norm { train: true scale: true center: true decay: 0.9997 epsilon: 0.001 }
"""
PLAIN = f"""
model {{
  ssd {{
    num_classes: 20
    image_resizer {{ keep_aspect_ratio_resizer {{
      min_dimension: 96 max_dimension: 128 pad_to_max_dimension: true
    }} }}
    feature_extractor {{
      type: "ssd_mobilenet_v1"
      depth_multiplier: 0.25
      min_depth: 8
      use_depthwise: true
      conv_hyperparams {{ {HYPERPARAMS} }}
    }}
    box_predictor {{
      convolutional_box_predictor {{
        kernel_size: 3 use_depthwise: true use_dropout: false
        conv_hyperparams {{ {HYPERPARAMS} }}
      }}
    }}
    anchor_generator {{
      ssd_anchor_generator {{
        num_layers: 6 min_scale: 0.15 max_scale: 0.9
        aspect_ratios: [1.0, 2.0, 0.5, 3.0, 0.3333]
      }}
    }}
    box_coder {{ faster_rcnn_box_coder {{ y_scale: 8 x_scale: 9 height_scale: 4 width_scale: 3 }} }}
    matcher {{ argmax_matcher {{ }} }}
    similarity_calculator {{ iou_similarity {{ }} }}
    loss {{
      classification_loss {{ weighted_sigmoid {{ }} }}
      localization_loss {{ weighted_smooth_l1 {{ }} }}
    }}
    post_processing {{
      batch_non_max_suppression {{
        score_threshold: 1e-8 iou_threshold: 0.45
        max_detections_per_class: 7 max_total_detections: 11
      }}
      score_converter: SOFTMAX
    }}
  }}
}}
"""
BIASED = HYPERPARAMS.replace('RELU_6', 'SWISH force_use_bias: true')
EFFICIENT = f"""
model {{
  ssd {{
    num_classes: 3
    image_resizer {{ keep_aspect_ratio_resizer {{
      min_dimension: 64 max_dimension: 64 pad_to_max_dimension: true
    }} }}
    feature_extractor {{
      type: "ssd_efficientnet-b0_bifpn_keras"
      depth_multiplier: 0.25
      min_depth: 8
      bifpn {{
        min_level: 3 max_level: 5 num_iterations: 2 num_filters: 64 combine_method: "attention"
      }}
      conv_hyperparams {{ {BIASED} }}
    }}
    box_predictor {{
      weight_shared_convolutional_box_predictor {{
        depth: 16 num_layers_before_predictor: 2 kernel_size: 3 use_depthwise: true
        conv_hyperparams {{ {BIASED} }}
      }}
    }}
    anchor_generator {{
      multiscale_anchor_generator {{
        min_level: 3 max_level: 5 anchor_scale: 3.0 aspect_ratios: [1.0, 2.0] scales_per_octave: 3
      }}
    }}
    box_coder {{ faster_rcnn_box_coder {{ }} }}
    matcher {{ argmax_matcher {{ }} }}
    similarity_calculator {{ iou_similarity {{ }} }}
    add_background_class: false
    loss {{
      classification_loss {{ weighted_sigmoid {{ }} }}
      localization_loss {{ weighted_smooth_l1 {{ }} }}
    }}
    post_processing {{
      batch_non_max_suppression {{
        score_threshold: 1e-8 iou_threshold: 0.5
        max_detections_per_class: 7 max_total_detections: 11
      }}
      score_converter: SIGMOID
    }}
  }}
}}
"""
# What an artifact without batch norm cannot tell.
UNTOLD = (
    'regularizer', 'initializer', 'batch_norm', 'matcher', 'loss', 'similarity_calculator',
    'use_dropout', 'dropout_keep_probability', 'class_prediction_bias_init',
    'normalize_loc_loss_by_codesize', 'encode_background_as_zeros',
    'additional_layer_depth', 'normalize_loss_by_num_matches',
    'override_base_feature_extractor_hyperparams',
)  # fmt: skip


def told(config):
    return recovered.flat(recovered.plain(recovered.with_defaults(config.model), without=UNTOLD))


@pytest.fixture(scope='module')
def plain(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('plain'))
    config, path = recovered.freeze(PLAIN, folder, is_calm=True)
    return config, *recovered.recover(path, folder), path


@pytest.fixture(scope='module')
def pyramid(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('pyramid'))
    text = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    config, path = recovered.freeze(text, folder)
    return config, *recovered.recover(path, folder), folder


@pytest.fixture(scope='module')
def efficient(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('efficient'))
    config, path = recovered.freeze(EFFICIENT, folder, deviation=0.15)
    return config, *recovered.recover(path, folder), folder


def test_config_of_separate_heads_equals_the_original(plain):
    config, _, found, _ = plain
    assert told(found) == told(config)


def test_config_of_a_pyramid_equals_the_original(pyramid):
    config, _, found, _ = pyramid
    assert told(found) == told(config)


def test_config_of_an_efficient_detector_equals_the_original(efficient):
    config, files, found, _ = efficient
    assert told(found) == told(config)
    hyperparams = [
        found.model.ssd.feature_extractor.conv_hyperparams,
        found.model.ssd.box_predictor.weight_shared_convolutional_box_predictor.conv_hyperparams,
    ]
    for each in hyperparams:
        assert each.force_use_bias and each.activation == each.SWISH
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert '* raw_detection_scores: ' in report and '.bifpn.combine_method` | attention' in report


def test_config_of_rotated_boxes_equals_the_original(tmp_path):
    text = tiny_rotated.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    text = text.replace('rotated_box_coder { }', 'rotated_box_coder { x_scale: 8 angle_scale: 7 }')
    text = text.replace('aspect_ratios: 3.0', 'aspect_ratios: [3.0, 0.5]')
    config, path = recovered.freeze(text, str(tmp_path), deviation=0.2)
    files, found = recovered.recover(path, str(tmp_path))
    assert told(found) == told(config)
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert '* raw_detection_scores: ' in report and '* raw_detection_boxes: ' in report


def test_weights_without_batch_norm_are_those_of_the_graph(pyramid):
    _, files, _, folder = pyramid
    graph_def = tf1.GraphDef.FromString(pathlib.Path(folder, 'frozen.pb').read_bytes())
    name = 'WeightSharedConvolutionalBoxPredictor/ClassPredictor/weights'
    (node,) = (node for node in graph_def.node if node.name == name)
    found = recovered.read_checkpoint(files.checkpoint)[name]
    np.testing.assert_array_equal(found, tf.make_ndarray(node.attr['value'].tensor))


def test_another_recovery_into_the_folder_is_refused(plain):
    _, files, _, path = plain
    folder = os.path.dirname(os.path.dirname(files.config))
    with pytest.raises(errors.UserError, match='holds a checkpoint already'):
        recovered.recover(path, folder)


TOWER = 'WeightSharedConvolutionalBoxPredictor/BoxPredictionTower/conv2d_0/BatchNorm'


@pytest.fixture(scope='module')
def converted(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('converted'))
    text = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    # Levels differ in their batch norms.
    filled = {f'{TOWER}/feature_0/gamma': 2.0, f'{TOWER}/feature_1/beta': 0.25}
    config, path = recovered.convert(text, folder, filled=filled)
    return config, *recovered.recover(path, folder)


def test_tflite_file_tells_what_its_network_is(converted):
    config, _, found = converted
    assert told(found) == told(config)


def test_boxes_and_scores_of_a_tflite_file_are_compared(converted):
    _, files, _ = converted
    with open(files.report, encoding='utf-8') as report:
        text = report.read()
    assert '* raw_detection_scores: ' in text and '* box_encodings: ' in text


def test_levels_of_a_tflite_file_have_their_batch_norms(converted):
    _, files, _ = converted
    values = recovered.read_checkpoint(files.checkpoint)
    # The factor of the first level is in the shared kernel.
    gammas = [values[f'{TOWER}/feature_{level}/gamma'] for level in range(2)]
    np.testing.assert_allclose(gammas[0], 1.0)
    np.testing.assert_allclose(gammas[1], 0.5, rtol=1e-5)
    np.testing.assert_allclose(values[f'{TOWER}/feature_1/beta'], 0.25, rtol=1e-5)


@pytest.mark.parametrize(
    'order, columns',
    [([0, 2, 1], [0, 1, 4, 5, 2, 3]), ([0, 2, 3, 1], [0, 1, 4, 5, 6, 7, 2, 3])],
)
def test_heads_get_the_order_of_newer_anchors_and_outputs_that_of_the_artifact(order, columns):
    count = len(order)
    names = [f'BoxPredictor_0/{name}Predictor/weights' for name in ('Class', 'BoxEncoding')]
    kernel = np.arange(2 * count).reshape(1, 1, 1, 2 * count)  # two columns an anchor
    kernels = types.SimpleNamespace(arrays=dict.fromkeys([*names, 'other/weights'], kernel))
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    single_shot._reorder(kernels, [count], [(1, 1)], np.array(order), proposal)
    for name in names:
        assert kernels.arrays[name].ravel().tolist() == columns
    assert kernels.arrays['other/weights'] is kernel
    ours = np.array(order)[np.newaxis, :, np.newaxis]
    for name in (fields.RAW_DETECTION_SCORES, fields.RAW_DETECTION_BOXES, fields.BOX_ENCODINGS):
        assert proposal.ours[name](ours).ravel().tolist() == list(range(count))
