"""Label maps: class names and ids, and the only conversion of ids to indices.

Ids are what people see: in label maps, in `image/object/class/label`, in exported detections. They
start at 1, 0 is the background; in some sets for classification they start at 0. Indices are what
networks compute with: positions of logits, from 0.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import os
import re
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, texts
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.config.text import parsing
from protos import label_map_pb2

log = logging.getLogger(__name__)

# In label maps of the Object Detection API 0 is the background.
FIRST_ID = 1
UNKNOWN_ID = -1
_MAX_ID = 2**31 - 1  # of the field
_MOST_LETTERS = 1000  # of a name: pictures, tables and legends show it

_BYTE_ORDER_MARK = '\ufeff'
# Names of an item 0, which says what 0 always means; the last one is of the pets of 2017.
_BACKGROUNDS = ('background', '_background_', '__background__', 'none_of_the_above')
_LINE = re.compile(r'(\d{1,12}):\s*(\S.*)')

Number = TypeVar('Number')  # an int, a NumPy array or an integer tensor


def to_index(ids: Number) -> Number:
    """Return the positions of the logits of ids: 0 for the first class, -1 for the background."""
    return ids - FIRST_ID


def with_class_name(metric: str, class_names: Sequence[str]) -> str:
    """Add the class name to the name of a metric of one class: `accuracy_class_6 (frog)`.

    Args:
        metric: its name; that of a class ends with `class_` and an index.
        class_names: by index. A name that is the index itself tells nothing more.
    """
    match = re.search(r'class_(\d+)$', metric)
    if match is None or int(match[1]) >= len(class_names):
        return metric
    name = class_names[int(match[1])]
    return metric if name == match[1] else f'{metric} ({name})'


def to_id(indices: Number) -> Number:
    """Return the ids that belong to positions of logits: 1 for the first logit."""
    return indices + FIRST_ID


@dataclasses.dataclass(frozen=True)
class LabelMapItem:
    """One class.

    Args:
        id: from 1, or from 0; see `LabelMap`.
        name: what records call it (`image/object/class/text`).
        display_name: what people call it; the name when the label map has none.
        keypoints: (id, label) of each keypoint.
        ancestor_ids: ids of the classes above it in a hierarchy.
        descendant_ids: ids of the classes below it.
        frequency: value of `LVISFrequency`.
        instance_count: how many instances the training set has; None when not said.
    """

    id: int
    name: str
    display_name: str
    keypoints: Tuple[Tuple[int, str], ...] = ()
    ancestor_ids: Tuple[int, ...] = ()
    descendant_ids: Tuple[int, ...] = ()
    frequency: int = 0
    instance_count: Optional[int] = None

    def label(self, use_display_name: bool = False) -> str:
        """Return the display name or the name."""
        return self.display_name if use_display_name else self.name


@dataclasses.dataclass(frozen=True)
class LabelMap:
    """The classes of a data set, in the order of their ids.

    Ids need not be dense: the 80 classes of COCO have ids up to 90.

    Args:
        items: the classes.
        path: the file they came from, for messages.
        first_id: the least id that a class may have: 1, or 0 where there is no background.
        other_names: (name, id): what other label maps of the same classes call them.

    Raises:
        errors.DataError: no items; an id below the first; an id or a name that two items have; an
            item without a name.
    """

    items: Tuple[LabelMapItem, ...]
    path: str = dataclasses.field(default='', compare=False)
    first_id: int = dataclasses.field(default=FIRST_ID, compare=False)
    other_names: Tuple[Tuple[str, int], ...] = ()
    _by_id: Mapping[int, LabelMapItem] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if not self.items:
            raise errors.DataError(f'{self._where}: the label map has no items.')
        by_id: Dict[int, LabelMapItem] = {}
        by_name: Dict[str, LabelMapItem] = {}
        for item in self.items:
            self._check(item, by_id, by_name)
            by_id[item.id] = item
            by_name[item.name] = item
        object.__setattr__(self, 'items', tuple(by_id[key] for key in sorted(by_id)))
        object.__setattr__(self, '_by_id', by_id)

    @classmethod
    def from_names(cls, names: Iterable[str], first_id: int = FIRST_ID) -> LabelMap:
        """Build a label map from names in the order of their ids, the first of which is given."""
        items = tuple(LabelMapItem(i, name, name) for i, name in enumerate(names, first_id))
        return cls(items, first_id=first_id)

    @classmethod
    def read(
        cls, path: str, num_classes: Optional[int] = None, first_id: int = FIRST_ID
    ) -> LabelMap:
        """Read a text file, see `parse`.

        Args:
            path: of the file.
            num_classes: how many classes the model has; every id must be within it.
            first_id: the least id that a class may have: 1, or 0 where there is no background.

        Raises:
            errors.DataError: the file cannot be read or parsed, or is not a valid label map.
        """
        try:
            with tf.io.gfile.GFile(os.fspath(path)) as file:
                text = file.read()
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            reason = error.message if isinstance(error, tf.errors.OpError) else error
            raise errors.DataError(f'{path}: the label map cannot be read: {reason}.') from error
        label_map = cls.parse(text, path, first_id)
        if num_classes is not None:
            label_map.check_num_classes(num_classes)
        return label_map

    @classmethod
    def parse(cls, text: str, path: str = '', first_id: int = FIRST_ID) -> LabelMap:
        """Parse the text of a `StringIntLabelMap` message, or lines `0:daisy` (a `labels.txt`).

        An item of id 0 that is named as in `_BACKGROUNDS` is left out, unless ids start at 0.

        Raises:
            errors.DataError: it does not parse (the message has line and column), or is not a valid
                label map.
        """
        # Editors of Windows write it. The parser of protobuf refuses it.
        text = text.lstrip(_BYTE_ORDER_MARK)
        path = os.fspath(path)
        items = _items_of_lines(text) or _items_of_message(text, path)
        if first_id == FIRST_ID:
            items = [item for item in items if not _is_background(item)]
        return cls(tuple(items), path, first_id)

    def write(self, path: str) -> None:
        """Write the text file that `read` reads; a partial file is never left.

        Raises:
            errors.UserError: the path is a folder.
        """
        folder = os.path.dirname(path)
        if folder:
            tf.io.gfile.makedirs(folder)
        checkpoint_files.write_atomically(path, self.text())

    def text(self) -> str:
        """Return the label map as text that `parse` reads."""
        message = label_map_pb2.StringIntLabelMap(item=[_item_to_proto(i) for i in self.items])
        # Without `as_utf8` letters beyond ASCII become octal escapes, which people cannot read.
        return text_format.MessageToString(message, as_utf8=True)

    def merged(self, other: LabelMap) -> LabelMap:
        """Return the classes of both maps: names are those of this one, `lookup` knows both.

        Raises:
            errors.DataError: a name has another id in the other map.
        """
        ours, theirs = self._ids_of_names(False), other._ids_of_names(False)
        for name, class_id in theirs.items():
            if ours.get(name, class_id) != class_id:
                raise errors.DataError(
                    f'{other._where}: {name!r} has id {class_id}, and in {self._where} it has id '
                    f'{ours[name]}; the readers of a config give a class one id.'
                )
        return LabelMap(
            self.items + tuple(item for item in other.items if item.id not in self._by_id),
            self.path,
            self.first_id,
            self.other_names + tuple(each for each in theirs.items() if each[0] not in self),
        )

    def check_num_classes(self, num_classes: int) -> None:
        """Check that a model with that many classes has a logit for every id.

        More classes than ids are no error, but a warning: some logits will never be meant.

        Raises:
            errors.DataError: an item's id is larger; the message names the first such item.
        """
        last = num_classes - 1 + self.first_id
        for item in self.items:
            if item.id > last:
                raise errors.DataError(
                    f'{self._where}: item {item.name!r} has id {item.id}, but the model has '
                    f'num_classes {num_classes}; ids must be from {self.first_id} to {last}.'
                )
        if last > self.max_id:
            log.warning(
                '%s: the largest id is %d, but the model has num_classes %d; no example is of the '
                'classes above.',
                self._where,
                self.max_id,
                num_classes,
            )

    def index(self, class_id: int) -> int:
        """Return the position of the logit of an id of this map."""
        return to_index(self.item(class_id).id)

    def id(self, index: int) -> int:
        """Return the id, of this map, of the logit at a position."""
        return self.item(to_id(index)).id

    def item(self, class_id: int) -> LabelMapItem:
        """Return the class with that id.

        Raises:
            errors.DataError: there is none.
        """
        if class_id in self._by_id:
            return self._by_id[class_id]
        raise errors.DataError(
            f'{self._where}: no item has id {class_id}; ids are from {self.items[0].id} to '
            f'{self.max_id}.'
        )

    def id_of_name(self, name: str) -> int:
        """Return the id of a class by its name or, where no name fits, by its display name.

        Raises:
            errors.DataError: there is none; the message names the nearest.
        """
        for use_display_name in (False, True):
            ids = [i.id for i in self.items if i.label(use_display_name) == name]
            if ids:
                return ids[0]
        if name in dict(self.other_names):
            return dict(self.other_names)[name]
        names = {name for item in self.items for name in (item.name, item.display_name)}
        raise errors.DataError(
            f'{self._where}: no item is named {name!r}{errors.did_you_mean(name, names)}'
        )

    @property
    def max_id(self) -> int:
        """The largest id: the least `num_classes` that fits."""
        return self.items[-1].id

    @property
    def names(self) -> Dict[int, str]:
        """Display names by id, for metrics and pictures, with control characters escaped."""
        return {item.id: texts.escaped(item.display_name) for item in self.items}

    def __contains__(self, name: object) -> bool:
        """Return whether `id_of_name` finds that name."""
        return name in dict(self.other_names) or any(
            name in (item.name, item.display_name) for item in self.items
        )

    def lookup(self, names: tf.Tensor, use_display_name: bool = False) -> tf.Tensor:
        """Look up names in the graph, and display names that are no other class's name.

        Adds a table to the graph's `TABLE_INITIALIZERS`, which a session must run (Estimators do).

        Args:
            names: string tensor of any shape.
            use_display_name: display names come first, and names where they are nobody's.

        Returns:
            int64 ids of the same shape; `UNKNOWN_ID` for a name that no item has.

        Raises:
            errors.DataError: two items have the same display name.
        """
        return self._lookup_table(use_display_name).lookup(names)

    def _lookup_table(self, use_display_name: bool) -> tf.lookup.StaticHashTable:
        ids = self._ids_of_names(use_display_name)
        initializer = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(ids), tf.string), tf.constant(list(ids.values()), tf.int64)
        )
        return tf.lookup.StaticHashTable(initializer, UNKNOWN_ID)

    def _ids_of_names(self, use_display_name: bool) -> Dict[str, int]:
        """Return the id of each name that `lookup` knows."""
        ids: Dict[str, int] = {}
        for item in self.items:
            label = item.label(use_display_name)
            if label in ids:
                raise errors.DataError(
                    f'{self._where}: the items with ids {ids[label]} and {item.id} have the same '
                    f'display_name {label!r}, so it cannot be looked up; use names.'
                )
            ids[label] = item.id
        # Without these, records whose texts are display names lost all boxes in silence (110e3352).
        others = collections.Counter(item.label(not use_display_name) for item in self.items)
        for item in self.items:
            other = item.label(not use_display_name)
            if others[other] == 1:
                ids.setdefault(other, item.id)
        for name, class_id in self.other_names:
            ids.setdefault(name, class_id)
        return ids

    @property
    def _where(self) -> str:
        return self.path or 'label map'

    def _check(
        self,
        item: LabelMapItem,
        by_id: Mapping[int, LabelMapItem],
        by_name: Mapping[str, LabelMapItem],
    ) -> None:
        problem = ''
        if not item.name:
            problem = f'the item with id {item.id} has neither a name nor a display_name.'
        elif max(len(item.name), len(item.display_name)) > _MOST_LETTERS:
            count = max(len(item.name), len(item.display_name))
            problem = (
                f'the name {item.name[:40]!r}... of id {item.id} has {count} letters; expected at '
                f'most {_MOST_LETTERS}.'
            )
        elif item.id == 0 and self.first_id > 0:
            problem = f'item {item.name!r} has id 0, which is the background; ids start at 1.'
        elif item.id < 0:
            problem = (
                f'item {item.name!r} has the negative id {item.id}; ids start at {self.first_id}.'
            )
        elif item.id > _MAX_ID:
            problem = f'item {item.name!r} has the id {item.id}; ids are at most {_MAX_ID}.'
        elif item.id in by_id:
            problem = f'items {by_id[item.id].name!r} and {item.name!r} both have id {item.id}.'
        elif item.name in by_name:
            problem = (
                f'two items have the name {item.name!r}: ids {by_name[item.name].id} and {item.id}.'
            )
        if problem:
            raise errors.DataError(f'{self._where}: {problem}')


def _items_of_lines(text: str) -> List[LabelMapItem]:
    """Parse lines of an id, a colon and a name; no items where any line is something else."""
    lines = [_LINE.fullmatch(line.strip()) for line in text.splitlines() if line.strip()]
    if not all(lines):
        return []
    return [LabelMapItem(int(line[1]), line[2], line[2]) for line in lines if line]


def _items_of_message(text: str, path: str) -> List[LabelMapItem]:
    message = label_map_pb2.StringIntLabelMap()
    try:
        parsing.parse(text, message, path or 'label map')
    except errors.ConfigError as error:
        raise errors.DataError(
            f"{error}\nA label map has items like: item {{ id: 1 name: 'cat' }}"
        ) from error
    for item in message.item:
        if not item.HasField('id'):
            name = item.name or item.display_name
            raise errors.DataError(f'{path or "label map"}: item {name!r} has no id.')
    return [_item_from_proto(item) for item in message.item]


def _is_background(item: LabelMapItem) -> bool:
    names = (item.name.lower(), item.display_name.lower())
    return item.id == 0 and any(name in _BACKGROUNDS for name in names)


def _item_from_proto(item: label_map_pb2.StringIntLabelMapItem) -> LabelMapItem:
    return LabelMapItem(
        id=item.id,
        name=item.name or item.display_name,
        display_name=item.display_name or item.name,
        keypoints=tuple((keypoint.id, keypoint.label) for keypoint in item.keypoints),
        ancestor_ids=tuple(item.ancestor_ids),
        descendant_ids=tuple(item.descendant_ids),
        frequency=item.frequency,
        instance_count=item.instance_count if item.HasField('instance_count') else None,
    )


def _item_to_proto(item: LabelMapItem) -> label_map_pb2.StringIntLabelMapItem:
    message = label_map_pb2.StringIntLabelMapItem(
        id=item.id,
        name=item.name,
        ancestor_ids=item.ancestor_ids,
        descendant_ids=item.descendant_ids,
        instance_count=item.instance_count,
    )
    if item.display_name != item.name:
        message.display_name = item.display_name
    if item.frequency:
        message.frequency = item.frequency
    for keypoint_id, label in item.keypoints:
        message.keypoints.add(id=keypoint_id, label=label)
    return message
