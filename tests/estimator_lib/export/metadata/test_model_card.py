"""The card of a model: the head that the Hub reads, and tables."""

import yaml

from estimator_lib.export.metadata import model_card

ABOUT = {
    'format': 'onnx',
    'inputs': {'image': {'dtype': 'float32', 'shape': [1, 8, 8, 3]}},
    'outputs': {'a:0': 'float32 [batch, 2]'},
    'resize': 'stretch',
    'threshold': 0.25,
}


def test_head_and_tables():
    card = model_card.text(
        'cats',
        'object-detection',
        ['a|b', 'c'],
        ABOUT,
        {'global_step': 7, 'val': {'mAP': 0.5, 'none': None}},
        'mit',
    )
    _, head, body = card.split('---\n', 2)
    assert yaml.safe_load(head) == {
        'license': 'mit',
        'library_name': 'vision-model-fns',
        'pipeline_tag': 'object-detection',
        'tags': ['onnx'],
    }
    assert body.startswith('\n# cats\n')
    for row in (
        '| inputs | `image`: float32 [1, 8, 8, 3] |',
        '| outputs | `a:0`: float32 [batch, 2] |',
        '| resizing of images | stretch |',
        '| least score that is worth showing | 0.25 |',
        '| classes | a\\|b, c |',
        '| mAP | 0.5 |',
    ):
        assert row in body, row
    assert 'none' not in body


def test_what_is_not_known_is_left_out():
    card = model_card.text('x', '', [], {'format': 'tflite'}, {})
    assert 'license' not in card and 'pipeline_tag' not in card
    assert '| classes | not named |' in card
