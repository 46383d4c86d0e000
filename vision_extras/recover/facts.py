"""Facts that an artifact tells about a model, and the config that they make."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np
from google.protobuf.message import Message

from estimator_lib.config.schema import is_repeated
from protos import pipeline_pb2

View = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Fact:
    """Field of the config that the artifact determines.

    Attributes:
        path: of the field or the message in the config.
        value: for people.
        evidence: what in the artifact tells it.
    """

    path: str
    value: str
    evidence: str


@dataclasses.dataclass
class Proposal:
    """Model that an artifact probably holds.

    Attributes:
        config: of the model, with published defaults for what the artifact does not tell.
        network: name of the network, for people.
        facts: what the artifact tells.
        unknown: sentences about what it does not tell, besides the defaults.
        outputs: tensors of the artifact by the output of our model that must equal them.
        counts: by output, our prediction of the number of its rows that count, which may be in
            another order; without one all rows count.
        other_rows: by output, the share of its rows that may be others; without one it is that of
            float noise at a threshold.
        files: texts of further files by name. Fields of the config with such a name get its path.
        network_input: our prediction that is the network's input; empty: it is the image.
        shared_input: tensor of the artifact that is the network's input, which our model gets too
            for the comparison; empty: it gets the image.
        prepare: pixels [H, W, C] -> what the artifact's input is of them; None: `network_input`, or
            it takes pixels.
        input_shape: (height, width, channels) of the images of the comparison, where the graph does
            not say it; None: it takes any size.
        ours: by output, what of our value the artifact has, and in its order.
        theirs: by output, our value from the artifact's.
    """

    config: pipeline_pb2.TrainEvalPipelineConfig
    network: str
    facts: List[Fact] = dataclasses.field(default_factory=list)
    unknown: List[str] = dataclasses.field(default_factory=list)
    outputs: Dict[str, str] = dataclasses.field(default_factory=dict)
    counts: Dict[str, str] = dataclasses.field(default_factory=dict)
    other_rows: Dict[str, float] = dataclasses.field(default_factory=dict)
    files: Dict[str, str] = dataclasses.field(default_factory=dict)
    network_input: str = ''
    shared_input: str = ''
    prepare: Optional[View] = None
    input_shape: Optional[Tuple[int, int, int]] = None
    ours: Dict[str, View] = dataclasses.field(default_factory=dict)
    theirs: Dict[str, View] = dataclasses.field(default_factory=dict)

    def learn(self, path: str, value: Any, evidence: str) -> Any:
        """Add a fact; return its value."""
        self.facts.append(Fact(path, str(value), evidence))
        return value

    def at(self, path: str) -> Any:
        """Return the message of the config at a path."""
        return operator.attrgetter(path)(self.config)

    def set(self, path: str, value: Any, evidence: str, within: str = '') -> None:
        """Set a field of the config, and add a fact.

        Args:
            path: of the field; a list replaces a repeated one, a message one of its kind, and a
                name stands for a value of an enum. Numbers have 6 significant digits.
            value: of the field.
            evidence: what in the artifact tells it.
            within: path of the message in which the path begins; empty: the config.
        """
        path = '.'.join(filter(None, (within, path)))
        section, _, name = path.rpartition('.')
        message = self.at(section)
        field = message.DESCRIPTOR.fields_by_name[name]
        shown = value
        if is_repeated(field):
            shown = [_short(each) for each in value]
            message.ClearField(name)
            getattr(message, name).extend(shown)
        elif field.message_type is not None:
            getattr(message, name).CopyFrom(value)
            shown = ' '.join(str(value).split())
        elif field.enum_type is not None:
            values = field.enum_type.values_by_name
            number = values[value].number if isinstance(value, str) else value
            setattr(message, name, number)
            shown = field.enum_type.values_by_number[number].name
        else:
            shown = _short(value)
            setattr(message, name, shown)
        self.learn(path, shown, evidence)

    def merge(self, path: str, part: Message, evidence: str) -> None:
        """Set the fields of a message of the config that a part of it has; each is a fact."""
        for field, value in part.ListFields():
            inside = f'{path}.{field.name}'
            if field.message_type is not None and not is_repeated(field):
                self.merge(inside, value, evidence)
            else:
                self.set(inside, value, evidence)

    def knows(self, path: str) -> bool:
        """Check whether a fact covers a field of the config."""
        return any(path == fact.path or path.startswith(f'{fact.path}.') for fact in self.facts)


class Refusal(Exception):
    """Reason why an artifact is not of a known model: one sentence.

    Args:
        reason: the sentence.
        differences: by known network, the differences to it.
    """

    def __init__(self, reason: str, differences: Mapping[str, List[str]] = {}):
        super().__init__(reason)
        self.differences = dict(differences)


def _short(value: Any) -> Any:
    """Return a number of floating point with 6 significant digits; others as they are."""
    return float(f'{value:.6g}') if isinstance(value, (float, np.floating)) else value
