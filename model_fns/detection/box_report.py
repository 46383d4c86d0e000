"""What `--mode=check` says of boxes: their sizes, and whether anchors overlap them."""

from __future__ import annotations

import collections
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task import DataReport
from model_fns import images
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data.image_resizers import ImageResizer
from model_fns.detection.detector import Detector
from model_fns.label_map import LabelMap

tf1 = tf.compat.v1

_MOST_BOXES = 2000  # that are compared with anchors
_AT_ONCE = 20_000_000  # pairs of a box and an anchor
_TOO_MANY = 0.2  # of the boxes, without an anchor
_PERCENTILES = (5, 50, 95)

Size = Tuple[int, int]


class Record(NamedTuple):
    """What the report needs of a record.

    Attributes:
        size: height and width of the image.
        boxes: float32 [n, number of record keys], normalized.
        ids: class ids [n].
    """

    size: Size
    boxes: np.ndarray
    ids: Tuple[int, ...]

    def counts(self) -> Dict[int, int]:
        """Objects by class id."""
        return dict(collections.Counter(self.ids))


def examine(serialized: bytes, family: BoxFamily, label_map: Optional[LabelMap]) -> Record:
    """What a valid record holds."""
    features = tf.train.Example.FromString(serialized).features.feature
    header = images.image_header(features['image/encoded'].bytes_list.value[0])
    sides = [features[key].float_list.value for key in family.RECORD_KEYS]
    names = features['image/object/class/text'].bytes_list.value
    if label_map is not None and names:
        ids = [label_map.id_of_name(name.decode()) for name in names]
    else:
        ids = features['image/object/class/label'].int64_list.value
    boxes = np.array(sides, np.float32).reshape(len(sides), -1).T
    return Record((header.height, header.width), boxes, tuple(ids))


def box_report(model: Detector, readers: Mapping[str, Sequence[Record]]) -> DataReport:
    """Sizes of the training boxes (else of all) at the network's input, and of the anchors.

    Args:
        model: whose anchors and inputs.
        readers: from `examine`, by reader.
    """
    records = next((records for records in readers.values() if records), ())
    records = [one for one in records if len(one.boxes)]
    if not records:
        return DataReport()
    sizes = _input_sizes(model.resizer, sorted({one.size for one in records}))
    lines = []
    scaled = [_scaled(model, one, sizes[one.size][0]) for one in records]
    lines.append(f'boxes: {_spread(_roots(model, np.concatenate(scaled)))}')
    # Anchors depend on the size of the input; the commonest one stands for all.
    by_size = collections.Counter(sizes[one.size][1] for one in records)
    size = by_size.most_common(1)[0][0]
    boxes = np.concatenate(
        [each for one, each in zip(records, scaled) if sizes[one.size][1] == size]
    )
    boxes = boxes[:: -(-len(boxes) // _MOST_BOXES)]
    fit = _fit(model, boxes, size)
    if fit is None:
        return DataReport(lines)
    similarity, anchors, threshold, meaning = fit
    lines.append(f'anchors: {_spread(_roots(model, anchors))}, for inputs of {size[0]} x {size[1]}')
    without = float(np.mean(similarity < threshold))
    sentence = f'{without:.1%} of {len(boxes):,} boxes overlap no anchor by {threshold:g}'
    lines.append(f'matches: {sentence}')
    if without <= _TOO_MANY:
        return DataReport(lines)
    return DataReport(lines, [f'{sentence}, {meaning}: the anchors do not fit the boxes'])


def _input_sizes(resizer: ImageResizer, sizes: Sequence[Size]) -> Dict[Size, Tuple[Size, Size]]:
    """(size of the content, size of the whole input) by image size."""
    with tf.Graph().as_default(), tf1.Session() as session:
        size = tf1.placeholder(tf.int32, [2])
        content = resizer.content_size(*tf.unstack(size))
        whole = resizer.padded_size(*content) or content
        fetched = tf.stack([tf.stack(content), tf.stack(whole)])
        return {
            one: tuple(tuple(pair) for pair in session.run(fetched, {size: one}).tolist())
            for one in sizes
        }


def _scaled(model: Detector, record: Record, content: Size) -> np.ndarray:
    """The boxes [n, K] of a record in pixels of the network's input."""
    with tf.Graph().as_default(), tf1.Session() as session:
        boxes = model.family.from_record(tf.constant(record.boxes), *map(float, record.size))
        return session.run(model.family.scale(boxes, *map(float, content)))


def _roots(model: Detector, boxes: np.ndarray) -> np.ndarray:
    """The side of the square of the same area."""
    with tf.Graph().as_default(), tf1.Session() as session:
        return np.sqrt(np.maximum(session.run(model.family.area(tf.constant(boxes))), 0))


def _spread(sides: np.ndarray) -> str:
    low, middle, high = np.percentile(sides, _PERCENTILES)
    return (
        f'root of the area {low:.0f} (5 %), {middle:.0f} (median), {high:.0f} (95 %) pixels of the '
        'input'
    )


def _fit(model: Detector, boxes: np.ndarray, size: Size) -> Optional[Tuple[Any, Any, float, str]]:
    """Similarities [M], anchors [A, K] in pixels, the threshold and what it is; None: none."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        some = tf1.placeholder(tf.float32, [None, boxes.shape[1]])
        scale = [float(side) for side in size]
        normalized = model.family.scale(some, *(1.0 / side for side in scale))
        fit = model.anchor_fit(tf.zeros([1, *size, model.resizer.channels]), normalized)
        if fit is None:
            return None
        anchors = session.run(model.family.scale(fit.anchors, *scale))
        step = max(1, _AT_ONCE // len(anchors))
        similarities: List[np.ndarray] = [
            session.run(fit.similarity, {some: boxes[start : start + step]})
            for start in range(0, len(boxes), step)
        ]
        return np.concatenate(similarities), anchors, fit.threshold, fit.meaning
