from model_fns.augmentation import IMAGE_STEPS
from model_fns.detection.data.augmentation import steps


def test_steps_of_images_are_among_those_of_detection():
    assert set(IMAGE_STEPS) < set(steps.BUILDERS)
    assert 'random_black_patches' in IMAGE_STEPS
    for kind in IMAGE_STEPS:
        assert steps.BUILDERS.get(kind) is IMAGE_STEPS.get(kind)
