"""Registry of the augmentation steps of detection."""

from __future__ import annotations

import functools

from estimator_lib import registry
from model_fns.augmentation import IMAGE_STEPS, steps
from model_fns.augmentation.steps import Mixer as Mixer
from model_fns.augmentation.steps import Step as Step
from model_fns.augmentation.steps import check as check
from model_fns.augmentation.steps import check_count as check_count
from model_fns.augmentation.steps import shown as shown

BUILDERS: steps.Builders = registry.Registry('augmentation')
for _kind in IMAGE_STEPS:
    BUILDERS.add(_kind, IMAGE_STEPS.get(_kind))

MIXERS: steps.MixerBuilders = registry.Registry('augmentation')

register = functools.partial(steps.register, BUILDERS)
