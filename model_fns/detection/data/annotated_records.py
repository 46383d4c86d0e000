"""Annotations of records for the checks of a whole data set."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import record_sources
from model_fns.datasets.annotations import class_maps
from model_fns.datasets.meaning import annotated, readings
from model_fns.datasets.meaning.annotated import CROWD, DIFFICULT, UNWEIGHTED, Annotated, Object
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data.instance_checks import MASK
from model_fns.structures import id_images
from protos import input_reader_pb2

_FLAGS = (('is_crowd', CROWD), ('difficult', DIFFICULT))


def annotate(
    serialized: bytes,
    size: Tuple[int, int],
    num_kept: int,
    family: BoxFamily,
    mask_type: Optional[int],
) -> Annotated:
    """Return the annotation of a valid record.

    Args:
        serialized: a serialized `tf.train.Example`.
        size: height and width of the image.
        num_kept: number of boxes that training uses.
        family: family of the boxes.
        mask_type: a value of `InstanceMaskType`; None: masks are not read. Of PNG masks the first
            one is compared with its box.
    """
    features = tf.train.Example.FromString(serialized).features.feature

    def values(key: str, kind: str) -> Sequence[Any]:
        return getattr(features[key], kind).value if key in features else ()

    names = values('image/object/class/text', 'bytes_list')
    labels = values('image/object/class/label', 'int64_list')
    source = b''.join(values('image/source_id', 'bytes_list')[:1]).decode('utf-8', 'replace')
    flags = {reason: values(f'image/object/{name}', 'int64_list') for name, reason in _FLAGS}
    weights = values('image/object/weight', 'float_list')
    boxes: List[Any] = []
    if family is axis_aligned:
        sides = (values(key, 'float_list') for key in family.RECORD_KEYS)
        boxes = [[left, top, right, bottom] for top, left, bottom, right in zip(*sides)]
    has_masks = mask_type == input_reader_pb2.PNG_MASKS
    masks = values(MASK, 'bytes_list') if has_masks else ()
    objects = []
    for index in range(max(len(names), len(labels))):
        reasons = [reason for reason, flag in flags.items() if flag[index : index + 1] == [1]]
        reasons += [UNWEIGHTED] * (weights[index : index + 1] == [0.0])
        objects.append(
            Object(
                place=f'{source}: box {index + 1}',
                numbers=boxes[index] if boxes else None,
                reading=readings.NORMALIZED_CORNERS,
                outline=_outline(masks[0]) if masks and not index else None,
                ignored=reasons[0] if reasons else '',
                label=None if names else labels[index],
            )
        )
    encoded = b''.join(values('image/encoded', 'bytes_list')[:1])
    looked_for = values(record_sources.LABELED, 'bytes_list')
    return Annotated(
        source,
        size,
        objects,
        num_kept,
        source_id=source,
        digest=annotated.digest(encoded),
        looked_for=tuple(name.decode() for name in looked_for),
    )


def _outline(mask: bytes) -> Optional[Sequence[float]]:
    """Return the box around a PNG mask; None where it is empty or not a mask of a record."""
    try:
        pixels = id_images.read(mask) > 0
    except errors.DataError:
        return None
    return class_maps.box_around(pixels) if np.any(pixels) else None
