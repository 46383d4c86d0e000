"""Round trips of CenterNets with names by scope."""

import pathlib

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.structures.label_map import LabelMap
from tests import tiny_center_net
from tests.vision_extras.recover import recovered
from vision_extras.recover import files

MODEL = tiny_center_net.MODEL.replace(
    'channel_means: [64, 64, 64] channel_stds: [64, 64, 64]',
    'channel_means: [60, 64, 68] channel_stds: [50, 55, 70] bgr_ordering: true',
)


@pytest.fixture(scope='module')
def round_trip(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('center_net'))
    config, path = recovered.freeze(MODEL, folder)
    return config, *recovered.recover(path, folder)


def test_fields_equal_the_original(round_trip):
    config, _, found = round_trip
    expected, model = config.model.center_net, found.model.center_net
    assert (model.num_classes, model.feature_extractor.type) == (2, 'hourglass_10')
    assert model.image_resizer == expected.image_resizer
    for name in ('channel_means', 'channel_stds'):
        numbers, original = (getattr(each.feature_extractor, name) for each in (model, expected))
        np.testing.assert_allclose(numbers, original, rtol=1e-4)
    assert model.feature_extractor.bgr_ordering
    told = model.post_processing.batch_non_max_suppression
    assert (round(told.iou_threshold, 6), told.max_total_detections) == (0.5, 10)
    task = model.object_detection_task
    assert list(task.scale_head_params.num_filters) == [16]


LABEL_MAP = """
item { id: 2 name: "blue" keypoints { id: 2 label: "tip" } keypoints { id: 0 label: "tail" } }
item { id: 1 name: "green" keypoints { id: 1 label: "middle" } }
"""
TASK = """
keypoint_estimation_task {
  task_name: "%s" keypoint_class_name: "%s"
  loss {
    localization_loss { l1_localization_loss { } }
    classification_loss { penalty_reduced_logistic_focal_loss { alpha: 2.0 beta: 4.0 } }
  }
  heatmap_head_params { num_filters: 8 } offset_head_params { num_filters: [8, 12] }
  %s
}
"""
BLUE = """
  regress_head_params { num_filters: 8 kernel_sizes: 5 }
  per_keypoint_offset: true keypoint_candidate_score_threshold: 0.45
  num_candidates_per_keypoint: 9 peak_max_pool_kernel_size: 5 unmatched_keypoint_score: 0.07
  box_scale: 1.4 candidate_search_scale: 0.6
  candidate_ranking_mode: "score_scaled_distance_ratio" score_distance_multiplier: 0.3
  clip_out_of_frame_keypoints: true
"""
GREEN = """
  regress_head_params { num_filters: 8 }
  candidate_ranking_mode: "score_distance_ratio" score_distance_offset: 2.5
  rescore_instances: true rescoring_threshold: 0.2
"""
# Of losses, and names.
UNTOLD = (
    'keypoint_class_name', 'loss', 'keypoint_label_to_std', 'keypoint_regression_loss_weight',
    'offset_peak_radius', 'heatmap_bias_init', 'kernel_sizes',
)  # fmt: skip


def told(task):
    return recovered.flat(recovered.plain(recovered.with_defaults(task), without=UNTOLD))


def test_keypoints_of_two_classes_equal_the_original(tmp_path):
    path = tmp_path / 'keypoints.pbtxt'
    path.write_text(LABEL_MAP)
    end = MODEL.rindex('}', 0, MODEL.rindex('}'))
    tasks = TASK % ('a', 'blue', BLUE) + TASK % ('b', 'green', GREEN)
    text = f'{MODEL[:end]} keypoint_label_map_path: "{path}" {tasks} }} }}'
    config, path = recovered.freeze(text, str(tmp_path))
    files_of, found = recovered.recover(path, str(tmp_path))
    originals = {task.task_name: task for task in config.model.center_net.keypoint_estimation_task}
    model = found.model.center_net
    for task in model.keypoint_estimation_task:
        assert told(task) == told(originals[task.task_name])
    labels = LabelMap.read(model.keypoint_label_map_path)
    assert {item.id: [number for number, _ in item.keypoints] for item in labels.items} == {
        1: [1],
        2: [2, 0],
    }
    assert found.train_input_reader.num_keypoints == 3
    report = pathlib.Path(files_of.report).read_text(encoding='utf-8')
    assert '* detection_keypoint_scores: ' in report and '* a/keypoint/heatmap/' in report


def test_checkpoint_of_another_network_is_refused(tmp_path):
    prefix = recovered.write_checkpoint(tiny_center_net.MODEL, str(tmp_path))[-1]
    values = recovered.read_checkpoint(prefix)
    names = [name for name in values if name.startswith('FeatureExtractor/')]
    del values[next(name for name in sorted(names) if name.endswith('/weights'))]
    changed = files.write_checkpoint(values, str(tmp_path / 'changed'))
    with pytest.raises(errors.UserError, match='the feature extractor is of no known network'):
        recovered.recover(changed, str(tmp_path))
