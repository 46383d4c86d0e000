import pytest
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, family


@pytest.mark.parametrize('module', [axis_aligned])
def test_a_family_has_all_that_is_asked_of_one(module):
    asked = {*family.BoxFamily.__annotations__, *vars(family.BoxFamily)}
    missing = [name for name in sorted(asked) if name[0] != '_' and not hasattr(module, name)]
    assert missing == []
    assert len(module.RECORD_KEYS) == module.SIZE


def test_boxes_tell_their_family():
    assert family.family_of(tf.zeros([3, 4])) is axis_aligned
    with pytest.raises(ValueError, match='boxes of 7 numbers; expected 4'):
        family.family_of(tf.zeros([3, 7]))
