import pytest
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, family, quadrilaterals


@pytest.mark.parametrize('module', [axis_aligned, quadrilaterals])
def test_a_family_has_all_that_is_asked_of_one(module):
    asked = {name for one in (family.Boxes, family.BoxFamily) for name in vars(one)}
    asked |= {*family.Boxes.__annotations__, *family.BoxFamily.__annotations__}
    missing = [name for name in sorted(asked) if name[0] != '_' and not hasattr(module, name)]
    assert missing == []


def test_boxes_tell_their_family():
    assert family.family_of(tf.zeros([3, 4])) is axis_aligned
    assert family.family_of(tf.zeros([3, 8])) is quadrilaterals
    with pytest.raises(ValueError, match='boxes of 7 numbers; expected 4 or 8'):
        family.family_of(tf.zeros([3, 7]))
