"""What `--mode=check` says of boxes: their sizes, and whether anchors overlap them."""

from __future__ import annotations

import collections
import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import DataReport
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data.image_resizers import ImageResizer
from model_fns.detection.detector import Detector
from model_fns.structures import images
from model_fns.structures.label_map import FIRST_ID, LabelMap

tf1 = tf.compat.v1

_MOST_BOXES = 2000  # that are compared with anchors
_AT_ONCE = 20_000_000  # pairs of a box and an anchor
_TOO_MANY = 0.2  # of the boxes, without an anchor
_PERCENTILES = (5, 50, 95)
_ROUNDING = 1e-4  # what a box may reach over the image because numbers were rounded
# Why boxes are left out.
_UNKNOWN = 'are of classes that the model does not have'
_NOT_A_NUMBER = 'are not numbers'
_NO_AREA = 'have no area'

Size = Tuple[int, int]


class Record(NamedTuple):
    """What the report needs of a record.

    Attributes:
        size: height and width of the image.
        boxes: float32 [n, number of record keys], normalized; those that training learns from.
        ids: class ids [n].
        left_out: why each of the other boxes is left out.
        unknown: the names or ids of the classes of those of an unknown class.
        outside: how many boxes reach out of the image.
        source: id of the record.
    """

    size: Size
    boxes: np.ndarray
    ids: Tuple[int, ...]
    left_out: Tuple[str, ...] = ()
    unknown: Tuple[Union[int, str], ...] = ()
    outside: int = 0
    source: str = ''

    def counts(self) -> Dict[int, int]:
        """Objects by class id."""
        return dict(collections.Counter(self.ids))


def examine(
    serialized: bytes,
    family: BoxFamily,
    label_map: Optional[LabelMap],
    num_classes: Optional[int] = None,
) -> Record:
    """Returns what a valid record holds.

    Args:
        serialized: a `tf.train.Example`.
        family: of the boxes.
        label_map: the names of the classes, for records that have names.
        num_classes: label ids are from 1 to it; None: all are known.
    """
    features = tf.train.Example.FromString(serialized).features.feature
    header = images.image_header(features['image/encoded'].bytes_list.value[0])
    sides = [features[key].float_list.value for key in family.RECORD_KEYS]
    names = features['image/object/class/text'].bytes_list.value
    if label_map is not None and names:
        classes = [name.decode('utf-8', 'replace') for name in names]
        ids = [label_map.id_of_name(name) if name in label_map else None for name in classes]
    else:
        classes = ids = list(features['image/object/class/label'].int64_list.value)
    last = math.inf if num_classes is None else FIRST_ID + num_classes - 1
    is_known = [one is not None and FIRST_ID <= one <= last for one in ids]
    boxes = np.array(sides, np.float32).reshape(len(sides), -1).T
    reasons = [_left_out(box, known, family) for box, known in zip(boxes.tolist(), is_known)]
    kept = [place for place, reason in enumerate(reasons) if not reason]
    source = features['image/source_id'].bytes_list.value
    return Record(
        (header.height, header.width),
        boxes[kept],
        tuple(ids[place] for place in kept),
        tuple(filter(None, reasons)),
        tuple(one for one, known in zip(classes, is_known) if not known),
        sum(bool(family.find_problem(box, _ROUNDING)) for box in boxes.tolist()),
        source[0].decode('utf-8', 'replace') if source else '',
    )


def _left_out(box: Sequence[float], is_known: bool, family: BoxFamily) -> str:
    """Returns why nothing is learned from a box; empty when something is."""
    if not is_known:
        return _UNKNOWN
    if any(map(math.isnan, box)):
        return _NOT_A_NUMBER
    return '' if family.has_sides(box) else _NO_AREA


def doubts(readers: Mapping[str, Sequence[Record]], room: Mapping[str, int]) -> List[str]:
    """Returns a sentence for each kind of boxes that are left out, or reach out of the image.

    Args:
        readers: from `examine`, by reader.
        room: by reader, the boxes of an image that there is room for.
    """
    found = []
    for reader, records in readers.items():
        for reason in (_UNKNOWN, _NOT_A_NUMBER, _NO_AREA):
            counts = [one.left_out.count(reason) for one in records]
            unknown = collections.Counter(each for one in records for each in one.unknown)
            named = [f'{name!r} ({count})' for name, count in unknown.most_common()]
            more = f': {errors.shortened(named)}' if reason == _UNKNOWN else ''
            found += _sentence(reader, records, counts, f'{reason}, and are left out{more}')
        found += _sentence(
            reader, records, [one.outside for one in records], 'reach out of the image'
        )
        most = room[reader]
        largest = max((len(one.boxes) for one in records), default=0)
        found += _sentence(
            reader,
            records,
            [max(len(one.boxes) - most, 0) for one in records],
            f'are left out, because max_number_of_boxes is {most}; max_number_of_boxes: {largest} '
            'has room for all of them',
        )
    return found


def _sentence(
    reader: str, records: Sequence[Record], counts: Sequence[int], text: str
) -> Sequence[str]:
    places = np.flatnonzero(counts)
    if not len(places):
        return ()
    first = records[places[0]].source
    of_records = f'of {len(places)} records' + (f' ({first!r} first)' if first else '')
    return [f'{reader}: {sum(counts)} boxes {of_records} {text}']


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
