import pytest
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, family, quadrilaterals, rotated


@pytest.mark.parametrize('module', [axis_aligned, quadrilaterals])
def test_a_family_has_all_that_is_asked_of_one(module):
    asked = {name for one in (family.Boxes, family.BoxFamily) for name in vars(one)}
    asked |= {*family.Boxes.__annotations__, *family.BoxFamily.__annotations__}
    missing = [name for name in sorted(asked) if name[0] != '_' and not hasattr(module, name)]
    assert missing == []


@pytest.mark.parametrize(
    'of_data, model_family', [(axis_aligned, axis_aligned), (quadrilaterals, rotated)]
)
def test_models_have_boxes_of_their_own(of_data, model_family):
    assert family.model_family(of_data) is model_family
    asked = {*vars(family.Boxes), *vars(family.ModelBoxes), *family.Boxes.__annotations__}
    assert [name for name in asked if name[0] != '_' and not hasattr(model_family, name)] == []
    assert (model_family is rotated) == of_data.IS_ROTATED


@pytest.mark.parametrize('module', [axis_aligned, quadrilaterals])
def test_boxes_of_models_and_back(module):
    corners = tf.constant([[0.25, 0.25, 0.25, 0.5, 0.75, 0.5, 0.75, 0.25], [0.0] * 8])
    boxes = corners[:, : module.SIZE]
    in_pixels = module.to_boxes(boxes, 40.0, 80.0)
    if module is axis_aligned:
        assert in_pixels[0].numpy().tolist() == [10, 20, 10, 40]
    else:  # 20 pixels high and wide, at its center.
        assert in_pixels[0, :4].numpy().tolist() == [20, 30, 20, 20]
    back = module.from_boxes(in_pixels, tf.constant([[40.0]])[0], tf.constant([[80.0]])[0])
    hulls = module.enclosing_boxes(back).numpy(), module.enclosing_boxes(boxes).numpy()
    assert hulls[0] == pytest.approx(hulls[1], abs=1e-6)


def test_boxes_tell_their_family():
    assert family.find_family(tf.zeros([3, 4])) is axis_aligned
    assert family.find_family(tf.zeros([3, 8])) is quadrilaterals
    with pytest.raises(ValueError, match='boxes of 7 numbers; expected 4 or 8'):
        family.find_family(tf.zeros([3, 7]))
