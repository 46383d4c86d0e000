"""Checks of records of images with one label, and with several."""

from __future__ import annotations

from typing import Any, Collection, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.data import record_sources
from model_fns.class_checks import ClassChecks
from model_fns.class_report import Record
from model_fns.classification import metrics
from model_fns.classification.inputs import OFFSET_FIELD, UNLABELED
from model_fns.datasets.meaning import annotated, checks, objects
from model_fns.datasets.meaning.annotated import Annotated, Object
from model_fns.datasets.meaning.issues import Issue
from model_fns.structures.channels import THREE_COLORS, Channels
from model_fns.structures.label_map import LabelMap

_NO_EXAMPLE = 'not a tf.train.Example'
_MOST_SHOWN = 10  # labels in a message
# Key and kind of the labels of a record: numbers, or names.
_LABEL_LISTS = {int: ('image/class/label', 'int64_list'), bytes: ('image/class/text', 'bytes_list')}


class ClassificationChecks(ClassChecks):
    """Data checks of images with one label.

    Args:
        num_classes: number of labels.
        labels_offset: the label of logit 0.
        label_map: ids of names, for records that have only those.
        channels: of the images.
        are_partly_labeled: whether images may be labeled for some classes only.
    """

    def __init__(
        self,
        num_classes: int,
        labels_offset: int,
        label_map: Optional[LabelMap] = None,
        channels: Channels = THREE_COLORS,
        are_partly_labeled: bool = False,
    ):
        names = {} if label_map is None else label_map.names
        shown = metrics.class_names(num_classes, names, labels_offset)
        is_partial = label_map is not None and are_partly_labeled
        id_of_name = label_map.id_of_name if is_partial else None
        super().__init__(dict(enumerate(shown, labels_offset)), 'images', id_of_name)
        self._labels_offset = labels_offset
        self._labels = range(labels_offset, labels_offset + num_classes)
        self._label_map = label_map
        self._channels = channels

    def check_example(self, serialized: bytes) -> Optional[str]:
        """Describe the first problem of a record, by its keys and values alone; None: none."""
        try:
            features = tf.train.Example.FromString(serialized).features.feature
        except Exception:  # each protobuf runtime has its own DecodeError
            return _NO_EXAMPLE
        if not features['image/encoded'].bytes_list.value:
            return 'no image/encoded'
        return self._channels.find_problem(features) or self._find_label_problem(features)

    def _find_label_problem(self, features: Mapping[str, Any]) -> Optional[str]:
        labels = features['image/class/label'].int64_list.value
        if not labels:
            names = features['image/class/text'].bytes_list.value
            if self._label_map is None or not names:
                return 'no image/class/label'
            name = names[0].decode(errors='replace')
            return None if name in self._label_map else f'unknown class {name!r}'
        if len(labels) > 1:
            return f'image/class/label has {len(labels)} values ({_listed(labels)}); expected one'
        if labels[0] not in self._labels:
            return f'image/class/label is {labels[0]}; {self._expected(labels[0])}'
        return None

    def _expected(self, label: int) -> str:
        """Return the labels, and what to set where they seem to start at 1, or at 0."""
        first, last = self._labels[0], self._labels[-1]
        hint = ''
        if (label, first) in ((last + 1, 0), (0, 1)):
            hint = f'; for labels that start at {1 - first} set {OFFSET_FIELD}: {1 - first}'
        return f'expected {first} to {last}{hint}'

    def examine(self, serialized: bytes) -> Record:
        """Count one image for each of its classes."""
        annotated = self.annotate(serialized)
        return Record(dict.fromkeys(self.list_classes(serialized), 1), annotated)

    def list_classes(self, serialized: bytes) -> Collection[int]:
        """Return the class of an image."""
        features = tf.train.Example.FromString(serialized).features.feature
        labels = features['image/class/label'].int64_list.value
        if labels and (self._label_map is None or labels[0] != UNLABELED):
            return [labels[0]]
        name = features['image/class/text'].bytes_list.value[0].decode()
        return [self._label_map.id_of_name(name)]

    def annotate(self, serialized: bytes) -> Optional[Annotated]:
        """Return the labels of a record as it has them; None: it is no `tf.train.Example`."""
        try:
            features = tf.train.Example.FromString(serialized).features.feature
        except Exception:  # each protobuf runtime has its own DecodeError
            return None
        values = features['image/source_id'].bytes_list.value[:1]
        source = b''.join(values).decode(errors='replace')
        labels = features['image/class/label'].int64_list.value
        texts = () if labels else features['image/class/text'].bytes_list.value
        known = [Object(source, label=label) for label in labels if label != UNLABELED]
        known += [Object(source, name=text.decode(errors='replace')) for text in texts]
        digest = annotated.digest(b''.join(features['image/encoded'].bytes_list.value[:1]))
        names = features[record_sources.LABELED].bytes_list.value
        return Annotated(
            source,
            (0, 0),
            known,
            len(known),
            source_id=source,
            digest=digest,
            looked_for=tuple(name.decode() for name in names),
        )

    def find_issues(self, images: Sequence[Annotated]) -> List[Issue]:
        """Return the issues of what all labels together mean."""
        first = self._labels_offset
        hint = f'. Set {OFFSET_FIELD}: {1 - first}' if first in (0, 1) else ''
        return checks.find(images, more=[objects.Labels(self._labels, 'labels', hint)])


class MultiLabelChecks(ClassificationChecks):
    """Data checks of images with any number of labels."""

    def _find_label_problem(self, features: Mapping[str, Any]) -> Optional[str]:
        return next(filter(None, map(self._label_problem, self._list_labels(features))), None)

    def repair_example(self, serialized: bytes) -> Optional[Tuple[bytes, str]]:
        """Remove the unknown labels of a record; None where no label is left."""
        problem = self.check_example(serialized)
        if problem is None or problem == _NO_EXAMPLE:
            return None
        example = tf.train.Example.FromString(serialized)
        features = example.features.feature
        labels = self._list_labels(features)
        known = [label for label in labels if not self._label_problem(label)]
        if not known:
            return None
        key, kind = _LABEL_LISTS[type(known[0])]
        values = getattr(features[key], kind).value
        del values[:]
        values.extend(known)
        repaired = example.SerializeToString()
        if self.check_example(repaired) is not None:
            return None
        removed = f'{len(labels) - len(known)} of {len(labels)} labels removed'
        return repaired, f'{problem} ({removed})'

    def _list_labels(self, features: Mapping[str, Any]) -> List[Any]:
        """Return the labels of a record: numbers, or names where it has no numbers."""
        numbers: List[Any] = list(features['image/class/label'].int64_list.value)
        if numbers or self._label_map is None:
            return numbers
        return list(features['image/class/text'].bytes_list.value)

    def _label_problem(self, label: Any) -> Optional[str]:
        """Describe why a label is not one of the classes; None: it is."""
        if isinstance(label, bytes):
            name = label.decode(errors='replace')
            known = self._label_map is not None and name in self._label_map
            return None if known else f'unknown class {name!r}'
        if label in self._labels:
            return None
        first, last = self._labels[0], self._labels[-1]
        return f'image/class/label has {label}; expected {first} to {last}'

    def list_classes(self, serialized: bytes) -> Collection[int]:
        """Return the classes of an image."""
        labels = self._list_labels(tf.train.Example.FromString(serialized).features.feature)
        names = self._label_map
        return {
            names.id_of_name(label.decode()) if isinstance(label, bytes) else label
            for label in labels
        }


def _listed(labels: Sequence[int]) -> str:
    shown = ', '.join(map(str, labels[:_MOST_SHOWN]))
    return f'{shown}, ..' if len(labels) > _MOST_SHOWN else shown
