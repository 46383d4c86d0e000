"""What is known of the fields of a config: field support, ranges, what messages must have.

The engine has rules for the messages that it reads (`engine_rules`), a task for those of its model
(`Task.config_rules`). Both are data; `support`, `required` and `validation` apply them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Tuple

from google.protobuf import message as message_lib

from estimator_lib import errors
from protos import pipeline_pb2

# Stands for every field of a message.
ALL = frozenset({'*'})

# The three kinds of field support.
SUPPORTED = 'supported'  # what the field says is done
IGNORED = 'ignored'  # accepted with a warning: nothing can depend on it
UNSUPPORTED = 'unsupported'  # an error when it is set to anything but its default

PipelineConfig = pipeline_pb2.TrainEvalPipelineConfig


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the field, as a setting would name it: `eval_input_reader.0.label_map_path`; empty
            where the text names it.
        text: its value and what was expected, or why it is unsupported.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f'{self.path}: {self.text}' if self.path else self.text


@dataclasses.dataclass(frozen=True)
class Condition:
    """What a supported field's value has to be.

    Attributes:
        accepts: whether the value, in its whole config, is supported.
        reason: why another one is not, and what to do instead.
    """

    accepts: Callable[[Any, message_lib.Message], bool]
    reason: str


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval.

    Attributes:
        low: its lower end.
        high: its upper end.
        open_low: whether `low` itself is out.
        open_high: whether `high` itself is out.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value is in it."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        ends = []
        if self.low > -math.inf:
            ends.append(f'{"more than" if self.open_low else "at least"} {shown(self.low)}')
        if self.high < math.inf:
            ends.append(f'{"less than" if self.open_high else "at most"} {shown(self.high)}')
        return ' and '.join(ends)


def shown(value: float) -> str:
    """A number in a message: all digits of a whole one that a person would write out."""
    return f'{value:.0f}' if float(value).is_integer() and abs(value) < 1e12 else f'{value:g}'


AT_LEAST_0 = Range(0)
AT_LEAST_1 = Range(1)
# Upper ends: what is above them is a slip of the pen, and would take all memory there is.
COUNT = Range(1, 1_000_000)  # of classes, boxes, images of a batch
PIXELS = Range(1, 10_000)  # a side of an image, a stride, a dilation
CHANNELS = Range(1, 100_000)  # of a layer
FEW = Range(1, 1000)  # layers, kernel sides, threads
SCALE = Range(0, 100, open_low=True)  # on the size of images or layers


def or_0(allowed: Range) -> Range:
    """A range from 0 on, of a field for which 0 has a meaning of its own."""
    return dataclasses.replace(allowed, low=0)


POSITIVE = Range(0, open_low=True)
FRACTION = Range(0, 1)
DECAY = Range(0, 1, open_high=True)  # of a moving average, or a momentum
POSITIVE_FRACTION = Range(0, 1, open_low=True)
NOT_POSITIVE = Range(high=0)
ANY = Range()  # any number that is one

Checks = Tuple[Callable[[PipelineConfig], Iterable[Problem]], ...]
Reasons = Mapping[str, Mapping[str, str]]


@dataclasses.dataclass(frozen=True)
class ConfigRules:
    """Rules of config fields; `Message.field` is by short name, `TrainConfig.num_steps`.

    Attributes:
        supported: the supported fields of each message, or `ALL`.
        ignored: why a field has no effect, by message and field.
        unsupported: why a field is an error, by message and field.
        conditions: on the values of supported fields, by `Message.field`.
        ranges: of numbers, by `Message.field`. Values that are not set are not looked at.
        required: the fields that a message is of no use without, by message. A list must have
            something in it.
        requires: conditions without which a field has no effect, by `Message.field`; see
            `requirements`.
        choices: names of the oneofs of which a member has to be set.
        ordered: (field, one that it may not be above) pairs by message.
        same_in_readers: fields on which all input readers have to agree, and the path of the field
            that decides where it is set ('': the first reader does).
        checkpoint_types: the values of `train_config.fine_tune_checkpoint_type`, and what an empty
            one stands for.
        problems: checks of a whole config, of which only the parts that a mode uses are set.
        doubts: yield sentences about what is allowed, and probably not meant.
    """

    supported: Mapping[str, FrozenSet[str]] = dataclasses.field(default_factory=dict)
    ignored: Reasons = dataclasses.field(default_factory=dict)
    unsupported: Reasons = dataclasses.field(default_factory=dict)
    conditions: Mapping[str, Condition] = dataclasses.field(default_factory=dict)
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    required: Mapping[str, Tuple[str, ...]] = dataclasses.field(default_factory=dict)
    requires: Mapping[str, str] = dataclasses.field(default_factory=dict)
    choices: Tuple[str, ...] = ()
    ordered: Mapping[str, Tuple[Tuple[str, str], ...]] = dataclasses.field(default_factory=dict)
    same_in_readers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    checkpoint_types: Mapping[str, Tuple[str, ...]] = dataclasses.field(default_factory=dict)
    problems: Checks = ()
    doubts: Tuple[Callable[[PipelineConfig], Iterable[str]], ...] = ()

    def __add__(self, other: ConfigRules) -> ConfigRules:
        """Both rules: of a message that is in both, the fields of both."""
        return ConfigRules(
            **{
                field.name: _joined(getattr(self, field.name), getattr(other, field.name))
                for field in dataclasses.fields(self)
            }
        )

    def support(self, message: str, field: str) -> List[str]:
        """`SUPPORTED`, `IGNORED` or `UNSUPPORTED`, in a list: empty for a field without rules."""
        supported = self.supported.get(message, frozenset())
        is_in = {
            SUPPORTED: supported == ALL or field in supported,
            IGNORED: field in self.ignored.get(message, ()),
            UNSUPPORTED: field in self.unsupported.get(message, ()),
        }
        return [name for name, holds in is_in.items() if holds]


def _joined(ours: Any, others: Any) -> Any:
    if isinstance(ours, tuple):
        return (*ours, *others)
    if isinstance(ours, frozenset):
        return ours | others
    if not isinstance(ours, Mapping):
        return others
    both = {key: _joined(ours[key], others[key]) for key in ours if key in others}
    return {**ours, **others, **both}


def names(text: str) -> FrozenSet[str]:
    """The words of a text."""
    return frozenset(text.split())


def because(reason: str, text: str) -> Dict[str, str]:
    """One reason for all words of a text."""
    return dict.fromkeys(text.split(), reason)


def requires(condition: str, text: str) -> Dict[str, str]:
    """Returns one condition for all words of a text."""
    return dict.fromkeys(text.split(), condition)


def ranges(allowed: Range, text: str) -> Dict[str, Range]:
    """One range for all words of a text."""
    return dict.fromkeys(text.split(), allowed)


def problems_of(build: Callable[..., Any], *arguments: Any) -> Iterator[Problem]:
    """What a function that makes something of a config says when it cannot."""
    try:
        build(*arguments)
    except errors.ConfigError as error:
        path, colon, text = str(error).partition(': ')
        named = colon and ' ' not in path
        yield Problem(path, text) if named else Problem('', str(error))
