"""Feature maps and raw predictions against the recorded cases."""

from __future__ import annotations

import pytest

from tests import rounding
from tests.model_fns.detection import recorded_detectors

pytestmark = pytest.mark.usefixtures('no_initial_values')


@pytest.mark.parametrize('name', recorded_detectors.CASES)
def test_inference_is_as_recorded(name):
    case = recorded_detectors.load(name)
    ours = recorded_detectors.run(case, is_training=False)
    case.check('infer/preprocessed', ours.preprocessed, 1e-5)
    for index, features in enumerate(ours.feature_maps):
        case.check_statistics(f'infer/fm_{index}', features, 1e-4)
    assert f'infer/fm_{len(ours.feature_maps)}__shape' not in case.arrays
    case.check('infer/pred__anchors', ours.anchors, 1e-6)
    case.check('infer/pred__box_encodings', ours.box_encodings, 1e-4)
    case.check('infer/pred__class_predictions_with_background', ours.class_logits, 1e-4)


@pytest.mark.parametrize('name', recorded_detectors.CASES)
def test_training_is_as_recorded(name):
    case = recorded_detectors.load(name)
    ours = recorded_detectors.run(case, is_training=True)
    # Batch statistics of the smallest maps are those of a few numbers, and enlarge rounding.
    for key, value in (
        ('box_encodings', ours.box_encodings),
        ('class_predictions_with_background', ours.class_logits),
    ):
        rounding.check_close(f'{name}: training', *case.recorded(f'train/pred__{key}', value))
    case.check('train/regularization_loss', ours.regularization_loss, 1e-5)
