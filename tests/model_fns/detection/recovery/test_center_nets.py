"""Round trips of CenterNets with names by scope."""

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.recovery import files
from tests import recovered, tiny_center_net

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


def test_checkpoint_of_another_network_is_refused(tmp_path):
    prefix = recovered.write_checkpoint(tiny_center_net.MODEL, str(tmp_path))[-1]
    values = recovered.read_checkpoint(prefix)
    names = [name for name in values if name.startswith('FeatureExtractor/')]
    del values[next(name for name in sorted(names) if name.endswith('/weights'))]
    changed = files.write_checkpoint(values, str(tmp_path / 'changed'))
    with pytest.raises(errors.UserError, match='the feature extractor is of no known network'):
        recovered.recover(changed, str(tmp_path))
