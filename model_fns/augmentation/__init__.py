"""Training-time augmentation of images, for the tasks that take `data_augmentation_options`.

Each kind of `PreprocessingStep` is a function (example, seed, parameters) -> example. A function in
the same file builds it from the config. Randomness depends only on the seed of the example. The
modules here have the steps that change nothing but the image; a task adds those that also change
its labels. Images stay uint8 until a step needs floats. From then on they are float32, in the same
range.
"""

from __future__ import annotations

from model_fns.augmentation import color, erasing, patches
from model_fns.augmentation.steps import IMAGE_STEPS

# The modules of the steps are imported because they register builders.
__all__ = ['IMAGE_STEPS', 'color', 'erasing', 'patches']
