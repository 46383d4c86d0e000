"""From configs to CenterNets: heads, weights of losses, and keypoints of a label map."""

import pytest
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.architectures.center_net import build
from protos import center_net_pb2
from tests.tiny_center_net import MODEL

LABEL_MAP = """
item { id: 2 name: "blue" keypoints { id: 2 label: "tip" } keypoints { id: 0 label: "tail" } }
item { id: 1 name: "green" keypoints { id: 1 label: "middle" } }
"""
TASK = """
keypoint_estimation_task {
  task_name: "%s" keypoint_class_name: "%s" task_loss_weight: 0.5
  keypoint_regression_loss_weight: 0.2 keypoint_heatmap_loss_weight: 3.0
  loss {
    localization_loss { l1_localization_loss { } }
    classification_loss { penalty_reduced_logistic_focal_loss { alpha: 1.0 beta: 5.0 } }
  }
  %s
}
"""


@pytest.fixture
def made(tmp_path):
    """Return a function: (text that is merged over the tiny model) -> parts of the detector."""
    path = tmp_path / 'keypoints.pbtxt'
    path.write_text(LABEL_MAP)
    text = MODEL[MODEL.index('center_net {') + len('center_net {') : MODEL.rindex('}')]
    text = text[: text.rindex('}')]

    def make(extra=''):
        config = text_format.Parse(text, center_net_pb2.CenterNet())
        config.keypoint_label_map_path = str(path)
        text_format.Merge(extra, config)
        return build.build_center_net(Section(config, 'model.center_net'))

    return make


def test_weights_of_losses_are_products(made):
    model = made('object_detection_task { task_loss_weight: 0.5 scale_loss_weight: 0.3 }')
    assert model._objects.size_weight == pytest.approx(0.15)
    assert model._objects.offset_weight == pytest.approx(0.5)
    assert model.loss_names == ('object_center', 'box/scale', 'box/offset')
    assert model.outputs == frozenset()


def test_heads_have_as_many_convolutions_as_either_list(made):
    model = made('object_detection_task { scale_head_params { num_filters: 8 } }')
    head = model._objects.size_head
    assert (head.filters, head.kernels, head.bias) == ((16, 8), (3, 3), None)
    model = made('object_detection_task { offset_head_params { kernel_sizes: 5 } }')
    assert model._objects.offset_head.kernels == (5,)
    assert model._objects.center_head.bias == pytest.approx(-2.19)


def test_keypoints_of_two_classes(made):
    blue = 'per_keypoint_offset: true keypoint_label_to_std { key: "tip" value: 0.25 }'
    model = made(TASK % ('a', 'blue', blue) + TASK % ('b', 'green', 'offset_peak_radius: 2'))
    first, second = (search.task for search in model._searches)
    assert (first.class_index, first.keypoints, first.deviations) == (1, (2, 0), (0.25, 1.0))
    assert (second.class_index, second.keypoints, second.radius) == (0, (1,), 2)
    assert first.regression_weight == pytest.approx(0.1)
    assert (first.heatmap_weight, first.offset_weight) == (1.5, 0.5)
    assert (first.heatmap_loss.alpha, first.heatmap_loss.beta) == (1.0, 5.0)
    channels = [[head.channels for head in task.heads] for task in (first, second)]
    assert channels == [[2, 4, 4], [1, 2, 2]]
    assert model.loss_names[3:6] == (
        'a/keypoint/heatmap',
        'a/keypoint/regression',
        'a/keypoint/offset',
    )
    assert model.outputs == {'detection_keypoints'}


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        (
            TASK % ('a', 'blu', ''),
            "keypoint_estimation_task.0.keypoint_class_name: .* has no class 'blu'.*'blue'",
        ),
        (TASK % ('a', 'blue', ''), 'have the ids 0, 2; expected each from 0 to 1 once'),
        (
            TASK % ('a', 'blue', 'keypoint_label_to_std { key: "tap" value: 1 }'),
            "keypoint_label_to_std: the class 'blue' has no keypoint 'tap'",
        ),
        (
            'num_classes: 1 ' + TASK % ('a', 'blue', ''),
            "'blue' has the id 2 in .*; expected at m",
        ),
        ('use_depthwise: true mask_estimation_task {}', 'mask_estimation_task: not supported'),
    ],
)
def test_what_the_label_map_lacks_is_said(made, text, message):
    with pytest.raises(errors.ConfigError, match=message):
        made(text)


def test_a_missing_label_map_is_named(made):
    with pytest.raises(errors.DataError, match='/nowhere.pbtxt: the label map cannot be read'):
        made(TASK % ('a', 'blue', '') + 'keypoint_label_map_path: "/nowhere.pbtxt"')
