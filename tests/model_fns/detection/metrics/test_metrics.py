from __future__ import annotations

import pytest

from estimator_lib import errors
from model_fns.detection import fields, metrics
from model_fns.structures.label_map import LabelMap, LabelMapItem
from protos import eval_pb2
from tests.model_fns.detection.metrics.scenes import detections, groundtruth, square

MAP_NAMES = {
    'coco_detection_metrics': 'DetectionBoxes_Precision/mAP',
    'pascal_voc_detection_metrics': 'PascalBoxes_Precision/mAP@0.5IOU',
    'weighted_pascal_voc_detection_metrics': 'WeightedPascalBoxes_Precision/mAP@0.5IOU',
    'precision_at_recall_detection_metrics': 'PrecisionAtRecallBoxes_Precision/mAP@0.5IOU',
    'oid_V2_detection_metrics': 'OpenImagesV2_Precision/mAP@0.5IOU',
    'oid_challenge_detection_metrics': 'OpenImagesDetectionChallenge_Precision/mAP@0.5IOU',
    'coco_mask_metrics': 'DetectionMasks_Precision/mAP',
    'pascal_voc_instance_segmentation_metrics': 'PascalMasks_Precision/mAP@0.5IOU',
    'weighted_pascal_voc_instance_segmentation_metrics': (
        'WeightedPascalMasks_Precision/mAP@0.5IOU'
    ),
    'oid_challenge_segmentation_metrics': (
        'OpenImagesInstanceSegmentationChallenge_Precision/mAP@0.5IOU'
    ),
}
BEST_F1 = [f'BestF1@.50IOU/{name}' for name in ('F1', 'precision', 'recall', 'score_threshold')]
OUTPUTS = frozenset([fields.DETECTION_MASKS, fields.DETECTION_KEYPOINTS])


def built(num_classes=2, label_map=None, outputs=OUTPUTS, **options):
    config = eval_pb2.EvalConfig(**{'include_metrics_per_category': False, **options})
    return metrics.build_metrics(config, num_classes, label_map, outputs)


def names(num_classes=2, label_map=None, outputs=OUTPUTS, **options):
    return without_best_f1(built(num_classes, label_map, outputs, **options).names())


def without_best_f1(found):
    """Return the requested names, without those of the best F1, which always follow."""
    assert found[-4:] == BEST_F1
    return found[:-4]


def person(**options):
    return {'parameterized_metric': [{'coco_keypoint_metrics': {'class_label': '1'}}], **options}


def test_coco_unless_another_is_named():
    assert names() == names(metrics_set=['coco_detection_metrics'])
    assert names()[0] == 'DetectionBoxes_Precision/mAP'
    assert len(names()) == 12


def test_rotated_boxes_have_a_threshold_of_the_best_f1():
    found = metrics.build_metrics(eval_pb2.EvalConfig(), 2, None, rotated=True).names()
    assert without_best_f1(found)[0].startswith('RotatedBoxes_')


@pytest.mark.parametrize('name', sorted(MAP_NAMES))
def test_each_set_is_registered(name):
    assert name in metrics.METRICS_SETS
    assert names(metrics_set=[name])[0] == MAP_NAMES[name]


def test_several_sets_each_once():
    both = ['pascal_voc_detection_metrics', 'coco_detection_metrics']
    assert names(metrics_set=[*both, both[0]]) == names(metrics_set=both)
    assert len(names(metrics_set=both)) == 3 + 12


def test_names_of_earlier_releases():
    assert names(metrics_set=['open_images_metrics']) == names(
        metrics_set=['oid_V2_detection_metrics']
    )


def test_an_unknown_set_names_the_nearest():
    with pytest.raises(errors.ConfigError, match='did you mean .coco_detection_metrics.'):
        names(metrics_set=['coco_detection_metric'])


@pytest.mark.parametrize('name', ['coco_panoptic_metrics'])
def test_some_sets_are_refused_by_name(name):
    with pytest.raises(errors.ConfigError, match=f'{name}. is not available: '):
        names(metrics_set=[name])


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'metrics_set': ['coco_mask_metrics']}, 'coco_mask_metrics is about masks, and the model'),
        ({'eval_instance_masks': True}, 'coco_mask_metrics is about masks, and the model predicts'),
        (person(), 'coco_keypoint_metrics is about keypoints, and the model predicts none'),
    ],
)
def test_a_model_without_masks_or_keypoints(options, message):
    with pytest.raises(errors.ConfigError, match=message):
        names(outputs=frozenset(), **options)


def test_masks_and_keypoints_beside_what_is_named():
    boxes, masks = names(), names(metrics_set=['coco_mask_metrics'])
    assert names(eval_instance_masks=True) == boxes + masks
    named = {'metrics_set': ['coco_mask_metrics']}
    assert names(eval_instance_masks=True, **named) == masks
    keypoints = names(**person(metrics_set=['coco_keypoint_metrics']))
    assert len(keypoints) == 10
    assert keypoints[0] == 'Keypoints_Precision/mAP ByCategory/1'
    assert names(**person()) == boxes + keypoints
    with pytest.raises(errors.ConfigError, match='coco_keypoint_metrics needs a class'):
        names(metrics_set=['coco_keypoint_metrics'])


def test_what_compares_masks_and_keypoints():
    assert metrics.find_instance_sets(eval_pb2.EvalConfig()) == (None, None)
    config = eval_pb2.EvalConfig(eval_instance_masks=True, **person())
    assert metrics.find_instance_sets(config) == ('coco_mask_metrics', 'coco_keypoint_metrics')
    for name in MAP_NAMES:
        evaluators = built(metrics_set=[name])._evaluators
        compares_masks = (
            metrics.find_instance_sets(eval_pb2.EvalConfig(metrics_set=[name]))[0] == name
        )
        assert compares_masks == (fields.MASKS in evaluators[0].needs)
        assert compares_masks == any(word in name for word in ('mask', 'segmentation'))


def test_class_names_come_from_the_label_map_where_it_has_them():
    label_map = LabelMap((LabelMapItem(2, 'cat', 'the cat'),))
    assert names(3, label_map, metrics_set=['pascal_voc_detection_metrics'])[1:] == [
        f'PascalBoxes_PerformanceByCategory/AP@0.5IOU/{name}' for name in ('1', 'the cat', '3')
    ]


def test_classes_of_the_same_display_name_are_told_apart():
    label_map = LabelMap((LabelMapItem(1, 'a', 'cat'), LabelMapItem(2, 'b', 'cat')))
    assert names(2, label_map, include_metrics_per_category=True)[12:] == [
        'DetectionBoxes_PerformanceByCategory/mAP/cat (1)',
        'DetectionBoxes_PerformanceByCategory/mAP/cat (2)',
    ]


def test_up_to_thirty_classes_are_reported_where_the_config_leaves_it_open():
    unset = eval_pb2.EvalConfig()
    label_map = LabelMap.from_names([f'n{index}' for index in range(1, 31)])
    few = without_best_f1(metrics.build_metrics(unset, 30, label_map).names())[12:]
    assert few == [f'DetectionBoxes_PerformanceByCategory/mAP/n{index}' for index in range(1, 31)]
    assert len(without_best_f1(metrics.build_metrics(unset, 31, None).names())) == 12
    assert len(names(31, include_metrics_per_category=True)) == 12 + 31


def test_all_metrics_per_category():
    found = names(2, all_metrics_per_category=True)
    assert len(found) == 12 + 2 + 12 * 2
    assert 'DetectionBoxes_Recall/AR@100 (small) ByCategory/1' in found


def test_super_categories():
    label_map = LabelMap.from_names(['cat', 'dog', 'car'])
    found = names(3, label_map, super_categories={'animal': 'cat, dog'})
    assert found[12:] == ['DetectionBoxes_PerformanceBySuperCategory/animal']
    with pytest.raises(errors.ConfigError, match=r"animal: no class is named 'cut'; did you mean"):
        names(3, label_map, super_categories={'animal': 'cut,dog'})


def test_recall_bounds():
    found = names(
        metrics_set=['precision_at_recall_detection_metrics'],
        recall_lower_bound=0.3,
        recall_upper_bound=0.9,
    )
    assert found[0] == 'PrecisionAtRecallBoxes_Precision/mAP@0.5IOU@[0.3,0.9]Recall'
    with pytest.raises(errors.ConfigError, match='recall_lower_bound is 0.9 and recall_upper'):
        names(
            metrics_set=['precision_at_recall_detection_metrics'],
            recall_lower_bound=0.9,
            recall_upper_bound=0.3,
        )


@pytest.mark.parametrize(('empty_to_ones', 'mean'), [(None, 0.25), (True, 0.25), (False, 0.5)])
def test_the_challenge_on_records_that_name_no_classes_of_their_image(empty_to_ones, mean):
    """Of two classes the first is never found; the second's mistake counts as the config says."""
    config = eval_pb2.EvalConfig(image_classes_field_map_empty_to_ones=empty_to_ones)
    name = 'oid_challenge_detection_metrics'
    evaluator = metrics.METRICS_SETS.get(name)(config, metrics.Classes({1: 'one', 2: 'two'}))
    mistake, find = (
        detections([square(place)], [score], [2]) for place, score in ((1, 0.9), (0, 0.5))
    )
    evaluator.add_image('a', groundtruth([square(0)], [1]), mistake)
    evaluator.add_image('b', groundtruth([square(0)], [2]), find)
    assert evaluator.evaluate()[MAP_NAMES[name]] == pytest.approx(mean)


def test_what_needs_the_classes_of_an_image():
    assert not metrics.needs_image_classes(eval_pb2.EvalConfig())
    assert metrics.needs_image_classes(
        eval_pb2.EvalConfig(metrics_set=['oid_challenge_object_detection_metrics'])
    )
    assert metrics.needs_image_classes(
        eval_pb2.EvalConfig(skip_predictions_for_unlabeled_class=True)
    )
    with pytest.raises(errors.ConfigError, match='only coco_detection_metrics'):
        names(
            metrics_set=['pascal_voc_detection_metrics'], skip_predictions_for_unlabeled_class=True
        )
