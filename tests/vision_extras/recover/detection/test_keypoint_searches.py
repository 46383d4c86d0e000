"""Keypoints of CenterNets: names of tasks, and label maps; test_center_nets has round trips."""

from google.protobuf import text_format

from protos import label_map_pb2
from vision_extras.recover.detection import keypoint_searches


def test_tasks_have_three_heads():
    heads = keypoint_searches.head_names(['human/pose', 'b'])
    assert heads[:3] == [
        'human/pose/keypoint/heatmap',
        'human/pose/keypoint/offset',
        'human/pose/keypoint/regression',
    ]
    layers = {head: [] for head in [*heads, 'object_center']}
    assert keypoint_searches.task_names(layers) == ['human/pose', 'b']
    del layers['b/keypoint/offset']
    assert keypoint_searches.task_names(layers) == ['human/pose']


def test_label_map_numbers_classes_and_keypoints():
    text = keypoint_searches._label_map(3, {2: [1, 0], 3: [2]})
    label_map = text_format.Parse(text, label_map_pb2.StringIntLabelMap())
    names = {
        item.name: [(each.id, each.label) for each in item.keypoints] for item in label_map.item
    }
    assert names == {
        'class_1': [],
        'class_2': [(1, 'keypoint_1'), (0, 'keypoint_0')],
        'class_3': [(2, 'keypoint_2')],
    }
