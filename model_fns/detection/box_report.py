"""Report of boxes for `--mode=check`: their sizes, and their overlap with anchors."""

from __future__ import annotations

import collections
import math
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np
import tensorflow as tf

from estimator_lib import errors, texts
from estimator_lib.task import DataReport
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data.image_resizers import ImageResizer
from model_fns.detection.detector import Detector
from model_fns.recipes import decisions
from model_fns.structures import images
from model_fns.structures.label_map import FIRST_ID, LabelMap

tf1 = tf.compat.v1

_MOST_BOXES = 2000  # boxes that are compared with anchors
# 16 MB for each float32 matrix of pairs.
_AT_ONCE = 4_000_000  # pairs of a box and an anchor in memory at one time
_TOO_MANY = 0.2  # fraction of boxes without an anchor that causes a warning
_PERCENTILES = (5, 50, 95)
_MULTIPLE = 32  # of the sides of a proposed input
_ROUNDING = 1e-4  # tolerance for boxes beyond the image, because of rounding
# Reasons why boxes are left out.
_UNKNOWN = 'of classes that the model does not have'
_NOT_A_NUMBER = 'with sides that are not numbers'
_NO_AREA = 'without area'

Size = Tuple[int, int]


class Record(NamedTuple):
    """Content of a record for the report.

    Attributes:
        size: height and width of the image.
        boxes: float32 [n, number of record keys], normalized; only boxes that training learns.
        ids: class ids [n].
        left_out: reason for each of the other boxes.
        unknown: names or ids of unknown classes of boxes.
        outside: number of boxes that extend beyond the image.
        num_ignored: number of boxes of weight 0, which are no objects: regions to ignore.
        source: id of the record.
        annotated: what the record says, for checks of the whole set; None: nobody asked.
    """

    size: Size
    boxes: np.ndarray
    ids: Tuple[int, ...]
    left_out: Tuple[str, ...] = ()
    unknown: Tuple[Union[int, str], ...] = ()
    outside: int = 0
    num_ignored: int = 0
    source: str = ''
    annotated: Optional[Annotated] = None

    def num_rows(self) -> int:
        """Return the number of boxes that training reads."""
        return len(self.boxes) + self.num_ignored

    @property
    def counts(self) -> Dict[int, int]:
        """Number of objects by class id."""
        return dict(collections.Counter(self.ids))


def examine(
    serialized: bytes,
    family: BoxFamily,
    label_map: Optional[LabelMap],
    num_classes: Optional[int] = None,
) -> Record:
    """Read the content of a valid record.

    Args:
        serialized: a serialized `tf.train.Example`.
        family: family of the boxes.
        label_map: label map, for records that name classes.
        num_classes: largest known label id; None: all ids are known.
    """
    features = tf.train.Example.FromString(serialized).features.feature
    header = images.image_header(features['image/encoded'].bytes_list.value[0])
    sides = [features[key].float_list.value for key in family.RECORD_KEYS]
    names = features['image/object/class/text'].bytes_list.value
    if label_map is not None and names:
        # Bytes that are no UTF-8 are an unknown class, not the end of the report.
        classes = [name.decode('utf-8', 'replace') for name in names]
        ids = [label_map.id_of_name(name) if name in label_map else None for name in classes]
    else:
        classes = ids = list(features['image/object/class/label'].int64_list.value)
    last = math.inf if num_classes is None else FIRST_ID + num_classes - 1
    is_known = [label is not None and FIRST_ID <= label <= last for label in ids]
    boxes = np.array(sides, np.float32).reshape(len(sides), -1).T
    reasons = [_left_out(box, known, family) for box, known in zip(boxes.tolist(), is_known)]
    used = [row for row, reason in enumerate(reasons) if not reason]
    weights = list(features['image/object/weight'].float_list.value)
    kept = [row for row in used if weights[row : row + 1] != [0.0]]
    source = features['image/source_id'].bytes_list.value
    return Record(
        (header.height, header.width),
        boxes[kept],
        tuple(ids[row] for row in kept),
        tuple(filter(None, reasons)),
        tuple(label for label, known in zip(classes, is_known) if not known),
        sum(bool(family.find_problem(box, _ROUNDING)) for box in boxes.tolist()),
        len(used) - len(kept),
        source[0].decode('utf-8', 'replace') if source else '',
    )


def _left_out(box: Sequence[float], is_known: bool, family: BoxFamily) -> str:
    """Describe why training ignores a box; empty if it does not."""
    if not is_known:
        return _UNKNOWN
    if any(map(math.isnan, box)):
        return _NOT_A_NUMBER
    return '' if family.has_sides(box) else _NO_AREA


def list_warnings(readers: Mapping[str, Sequence[Record]], room: Mapping[str, int]) -> List[str]:
    """Describe each kind of boxes that are left out, or extend beyond the image.

    Args:
        readers: results of `examine`, by reader.
        room: largest number of boxes of an image, by reader.

    Returns:
        A sentence for each kind.
    """
    warnings = []
    for reader, records in readers.items():
        for reason in (_UNKNOWN, _NOT_A_NUMBER, _NO_AREA):
            counts = [record.left_out.count(reason) for record in records]
            unknown = collections.Counter(label for record in records for label in record.unknown)
            named = [f'{name!r} ({count})' for name, count in unknown.most_common()]
            more = f': {errors.shortened(named)}' if reason == _UNKNOWN else ''
            warnings += _sentence(reader, records, counts, f'{reason}, left out{more}')
        warnings += _sentence(
            reader, records, [record.outside for record in records], 'beyond the edge of the image'
        )
        most = room[reader]
        largest = max((record.num_rows() for record in records), default=0)
        warnings += _sentence(
            reader,
            records,
            [max(record.num_rows() - most, 0) for record in records],
            f'left out, because max_number_of_boxes is {most}; max_number_of_boxes: {largest} '
            'has room for all of them',
        )
    return warnings


def _sentence(
    reader: str, records: Sequence[Record], counts: Sequence[int], text: str
) -> Sequence[str]:
    affected = np.flatnonzero(counts)
    if not len(affected):
        return ()
    first = records[affected[0]].source
    boxes = texts.counted(sum(counts), 'box', 'boxes')
    place = texts.counted(len(affected), 'record') + (f' ({first!r} first)' if first else '')
    return [f'{reader}: {boxes} of {place} {text}']


class Fit(NamedTuple):
    """Anchors beside the boxes that they are for.

    Attributes:
        anchors: [A, K], in pixels of the network's input.
        similarity: [m], of boxes with their best anchor.
        threshold: least similarity of a match; None: each box has an anchor, however similar.
        meaning: meaning of the threshold.
        size: height and width of the network's input.
        grids: see `detector.AnchorFit`.
    """

    anchors: np.ndarray
    similarity: np.ndarray
    threshold: Optional[float]
    meaning: str
    size: Size
    grids: Sequence[Size] = ()

    def unmatched_share(self) -> float:
        """Return the share of the boxes that have no anchor."""
        return 0.0 if self.threshold is None else float(np.mean(self.similarity < self.threshold))

    def describe(self) -> str:
        """Return a sentence on the boxes that have no anchor."""
        count = f'{len(self.similarity):,}'
        if self.threshold is None:
            middle = float(np.median(self.similarity))
            return (
                f'each of {count} boxes has an anchor, whatever their overlap ({middle:.2f} in the '
                'median)'
            )
        share = f'{self.unmatched_share():.1%}'
        return f'{share} of {count} boxes overlap no anchor by {self.threshold:g}'


def fit_anchors(
    model: Detector, records: Sequence[Record]
) -> Tuple[Optional[np.ndarray], Optional[Fit]]:
    """Compute the boxes at the network's input, and the fit of the anchors.

    Args:
        model: the detector.
        records: results of `examine`.

    Returns:
        Boxes [n, K] in pixels of the input, None without boxes; and the fit of at most 2000 of
        them, None for a model without anchors.
    """
    records = [record for record in records if len(record.boxes)]
    if not records:
        return None, None
    sizes = _input_sizes(model.resizer, sorted({record.size for record in records}))
    scaled = _scaled(model, records, [sizes[record.size][0] for record in records])
    # Anchors depend on the size of the input; the most common size is used.
    by_size = collections.Counter(sizes[record.size][1] for record in records)
    size = by_size.most_common(1)[0][0]
    boxes = np.concatenate(
        [boxes for record, boxes in zip(records, scaled) if sizes[record.size][1] == size]
    )
    # Every n-th box, not the first ones, which come from a few images.
    boxes = boxes[:: -(-len(boxes) // _MOST_BOXES)]
    return np.concatenate(scaled), _fit(model, boxes, size)


def box_report(model: Detector, readers: Mapping[str, Sequence[Record]]) -> DataReport:
    """Report the sizes of boxes at the network's input, and of anchors.

    Args:
        model: the detector.
        readers: results of `examine`, by reader; the first with records is reported.
    """
    boxes, fit = fit_anchors(model, first_records(readers))
    if boxes is None:
        return DataReport()
    lines = [f'boxes: {_spread(_roots(model, boxes))}']
    if fit is None:
        return DataReport(lines)
    height, width = fit.size
    sides = _spread(_roots(model, fit.anchors))
    lines.append(f'anchors: {sides}, for inputs of {height} x {width}')
    lines.append(f'matches: {fit.describe()}')
    if fit.unmatched_share() <= _TOO_MANY:
        return DataReport(lines)
    warning = f'{fit.describe()}, {fit.meaning}: the anchors do not fit the boxes'
    return DataReport(lines, [warning])


def input_warnings(model: Detector, records: Sequence[Record]) -> List[str]:
    """Return a sentence, with its remedy, for each way in which the input hurts images and boxes.

    Args:
        model: the detector.
        records: results of `examine`.
    """
    if not records:
        return []
    sizes = _input_sizes(model.resizer, sorted({record.size for record in records}))
    warnings = []
    contents = {content for content, _ in sizes.values()}
    if len(contents) == 1:  # else the resizer keeps the shapes of images
        ((height, width),) = contents
        aspects = [record.size[1] / record.size[0] for record in records]
        odd = decisions.odd_aspect(aspects, width / height)
        if odd:
            side = math.sqrt(height * width)
            shape = decisions.shape_of_input(side, float(np.median(aspects)), _MULTIPLE, None)
            warnings.append(
                f'{odd}: objects are squeezed; fixed_shape_resizer {{ height: {shape[0]} width: '
                f'{shape[1]} }} has the shape of the images'
            )
    with_boxes = [record for record in records if len(record.boxes)]
    scaled = _scaled(model, with_boxes, [sizes[record.size][0] for record in with_boxes])
    sides = _roots(model, np.concatenate(scaled)) if scaled else np.zeros([0])
    small = decisions.small_objects(sides)
    if small:
        warnings.append(
            f'{small}: expected a larger image_resizer, or tiles (of a reader of files or '
            'convert-records --tile; eval_config.tiles; --mode=predict --tile)'
        )
    return warnings


def first_records(readers: Mapping[str, Sequence[Record]]) -> Sequence[Record]:
    """Return the records of the first reader that has any."""
    return next((records for records in readers.values() if records), ())


def _input_sizes(resizer: ImageResizer, sizes: Sequence[Size]) -> Dict[Size, Tuple[Size, Size]]:
    """Compute (size of the content, size of the whole input) by image size."""
    with tf.Graph().as_default(), tf1.Session() as session:
        size = tf1.placeholder(tf.int32, [2])
        content = resizer.content_size(*tf.unstack(size))
        whole = resizer.padded_size(*content) or content
        fetched = tf.stack([tf.stack(content), tf.stack(whole)])
        return {
            image_size: tuple(
                tuple(pair) for pair in session.run(fetched, {size: image_size}).tolist()
            )
            for image_size in sizes
        }


def _scaled(
    model: Detector, records: Sequence[Record], contents: Sequence[Size]
) -> List[np.ndarray]:
    """Scale the boxes [n, K] of each record to pixels of the network's input.

    Args:
        model: the detector.
        records: the records.
        contents: height and width of the image of each record in the network's input.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        values = tf1.placeholder(tf.float32, [None, len(model.family.RECORD_KEYS)])
        size, content = (tf1.placeholder(tf.float32, [2]) for _ in range(2))
        boxes = model.family.from_record(values, *tf.unstack(size))
        scaled = model.family.scale(boxes, *tf.unstack(content))
        # One graph and one session for all records. --mode=check built them for each (07cfc4e6).
        run = session.make_callable(scaled, [values, size, content])
        return [run(record.boxes, record.size, sides) for record, sides in zip(records, contents)]


def _roots(model: Detector, boxes: np.ndarray) -> np.ndarray:
    """Compute the side of the square of the same area."""
    with tf.Graph().as_default(), tf1.Session() as session:
        # An inverted box has a negative area, whose root would be NaN in all percentiles.
        return np.sqrt(np.maximum(session.run(model.family.area(tf.constant(boxes))), 0))


def _spread(sides: np.ndarray) -> str:
    low, middle, high = np.percentile(sides, _PERCENTILES)
    return (
        f'root of the area {low:.0f} (5 %), {middle:.0f} (median), {high:.0f} (95 %) pixels of the '
        'input'
    )


def _replace_weight(getter: Callable[..., Any], name: str, **options: Any) -> Any:
    """Return a placeholder for a weight: anchors depend on shapes, and it is built faster."""
    if options['trainable']:
        return tf1.placeholder(options['dtype'], options['shape'])
    return getter(name, **options)


def _without_weights() -> ContextManager[Any]:
    """Return a scope of the current graph; one from outside would add its operations there."""
    return tf1.variable_scope('', custom_getter=_replace_weight)


def _fit(model: Detector, boxes: np.ndarray, size: Size) -> Optional[Fit]:
    """Compute the fit of anchors to boxes [m, K], in pixels of inputs of a size."""
    # In this order, see `_without_weights`: the scope must be created while the new graph is the
    # default.
    with tf.Graph().as_default(), tf1.Session() as session, _without_weights():
        tf1.train.create_global_step()
        block = tf1.placeholder(tf.float32, [None, boxes.shape[1]])
        scale = [float(side) for side in size]
        normalized = model.family.scale(block, *(1.0 / side for side in scale))
        fit = model.anchor_fit(tf.zeros([1, *size, model.resizer.channels]), normalized)
        if fit is None:
            return None
        anchors = session.run(model.family.scale(fit.anchors, *scale))
        step = max(1, _AT_ONCE // len(anchors))
        similarities: List[np.ndarray] = [
            session.run(fit.similarity, {block: boxes[start : start + step]})
            for start in range(0, len(boxes), step)
        ]
        similarity = np.concatenate(similarities)
        return Fit(anchors, similarity, fit.threshold, fit.meaning, size, fit.grids)
