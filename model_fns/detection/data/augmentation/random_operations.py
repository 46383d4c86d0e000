"""RandAugment for examples with objects."""

from __future__ import annotations

from model_fns.augmentation import rand_augment
from model_fns.detection.data.augmentation import frames, steps
from protos import augmentation_pb2


@steps.BUILDERS.register('rand_augment')
def _build(config: augmentation_pb2.RandAugment, where: str) -> steps.Step:
    return rand_augment.build(config, where, frames.transform)
