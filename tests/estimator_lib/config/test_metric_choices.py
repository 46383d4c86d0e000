"""The direction in which a metric improves, by its name and by the config."""

import pytest

from estimator_lib import errors
from estimator_lib.config import metric_choices
from protos import pipeline_pb2


@pytest.mark.parametrize(
    ('expected', 'names'),
    [
        (False, 'loss Loss/iou Loss/total_loss mae mae_age RMSE offset_error meanError iou_loss'),
        (False, 'inference_time mean_distance seconds_per_image latency'),
        (
            True,
            'accuracy accuracy_class_1 recall_5 AP_class_0 F1_class_1 macro_F1 mAP PQ_class_0',
        ),
        (True, 'miou_1.0_overall miou_0.5_1.0_flipped_class_3 mIoU meanIOU edges_f_score'),
        (True, 'DetectionBoxes_Precision/mAP@.50IOU RotatedBoxes_Precision/mAP11@0.5IOU'),
        (True, 'DetectionBoxes_Recall/AR@100 BestF1@.50IOU/F1'),
        # The class has any name.
        (True, 'PascalBoxes_PerformanceByCategory/AP@0.5IOU/error'),
        (None, 'BestF1@.50IOU/score_threshold height temporal_losses_map_count x'),
    ],
)
def test_names_say_the_direction(expected, names):
    found = {name: metric_choices.improves_upward(name) for name in names.split()}
    assert found == dict.fromkeys(names.split(), expected)


@pytest.mark.parametrize('field', ['train_config.early_stopping', 'export_config.best'])
def test_the_config_decides_where_the_name_does_not_say(field):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    section, name = field.split('.')
    choice = getattr(getattr(config, section), name)
    choice.metric = 'height'
    with pytest.raises(errors.ConfigError, match=f"{field}.higher_is_better .*'height', does not"):
        metric_choices.check(config, ['height'], 'line')
    for value in (True, False):
        choice.higher_is_better = value
        assert metric_choices.higher_is_better(choice) is value
        metric_choices.check(config, ['height'], 'line')
        assert not list(metric_choices.contradictions(config))
        assert metric_choices.direction(config, 'height') is value
    assert metric_choices.direction(config, 'width') is None
    assert metric_choices.direction(config, 'accuracy') is True


def test_a_direction_against_the_name_is_kept_with_a_warning():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_config.early_stopping.metric = 'loss'
    assert metric_choices.higher_is_better(config.train_config.early_stopping) is False
    assert not list(metric_choices.contradictions(config))
    config.train_config.early_stopping.higher_is_better = True
    assert metric_choices.higher_is_better(config.train_config.early_stopping) is True
    (warning,) = metric_choices.contradictions(config)
    assert warning == (
        "train_config.early_stopping.higher_is_better is true, and 'loss' is better when lower: "
        'the worst model counts as the best.'
    )
