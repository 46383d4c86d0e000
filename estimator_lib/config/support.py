"""Which fields of the schema are honoured: each is in exactly one of three columns.

    HONOURED   the engine or a task does what the field says
    NO_EFFECT  accepted with a warning: nothing can depend on it
    REFUSED    an error when it is set to anything but its default

The columns are in `config_columns`. A message that is whole in one column takes one line there.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, List, Mapping, Sequence, Tuple

from google.protobuf import message as message_lib

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.support_tables import ALL, HONOURED, NO_EFFECT, ONLY_OF_DETECTION, REFUSED
from protos import hyperparams_pb2, input_reader_pb2, pipeline_pb2, train_pb2


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the field, as a setting would name it: `eval_input_reader.0.label_map_path`.
        text: its value and what was expected, or why it is refused.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f'{self.path}: {self.text}'


@dataclasses.dataclass(frozen=True)
class Condition:
    """What an honoured field's value has to be.

    Attributes:
        accepts: whether the value, in its whole config, is honoured.
        reason: why another one is not, and what to do instead.
    """

    accepts: Callable[[Any, message_lib.Message], bool]
    reason: str


_DETECTORS = ('ssd', 'faster_rcnn')


def model_kind(config: message_lib.Message) -> str:
    """The field of `model` that a pipeline config has set; empty where there is none."""
    if not isinstance(config, pipeline_pb2.TrainEvalPipelineConfig):
        return ''
    return config.model.WhichOneof('model') or ''


def is_detector(config: message_lib.Message) -> bool:
    """Whether a pipeline config's model finds boxes."""
    return model_kind(config) in _DETECTORS


def _starts_from_checkpoint(config: message_lib.Message) -> bool:
    return bool(getattr(config, 'train_config', config).fine_tune_checkpoint)


def _of_boxes(reason: str) -> Condition:
    return Condition(
        lambda value, config: model_kind(config) not in ('classification', 'segmentation'), reason
    )


# Conditions on honoured fields, by `Message.field`.
CONDITIONS: Mapping[str, Condition] = {
    'TrainConfig.data_augmentation_options': _of_boxes(
        'images are varied by the preprocessing of the model (model.classification.preprocessing, '
        'a family; model.segmentation.preprocessing, its fields)'
    ),
    'EvalConfig.metrics_set': _of_boxes(
        'classification and segmentation have one set of metrics each, which is always reported'
    ),
    'EvalConfig.super_categories': _of_boxes(
        'classification and segmentation have no metrics over groups of classes'
    ),
    'TrainConfig.fine_tune_checkpoint_version': Condition(
        lambda value, config: value != train_pb2.V2 or not _starts_from_checkpoint(config),
        'checkpoints of TensorFlow 2 objects cannot be restored by variable name; use a '
        'checkpoint of TensorFlow 1',
    ),
    'InputReader.input_type': Condition(
        lambda value, config: value != input_reader_pb2.TF_SEQUENCE_EXAMPLE,
        'records are tf.train.Example; sequences are not read',
    ),
    'Hyperparams.op': Condition(
        lambda value, config: value == hyperparams_pb2.Hyperparams.CONV,
        'the layers are convolutions; expected CONV',
    ),
}


def columns(message: str, field: str) -> List[str]:
    """The names of the columns that a field is in: exactly one, as a test holds."""
    found = []
    if HONOURED.get(message) == ALL or field in HONOURED.get(message, ()):
        found.append('HONOURED')
    if field in NO_EFFECT.get(message, ()):
        found.append('NO_EFFECT')
    if refusal(message, field):
        found.append('REFUSED')
    return found


def refusal(message: str, field: str) -> str:
    """Why a field is refused; empty when it is not."""
    reasons = REFUSED.get(message, {})
    return reasons if isinstance(reasons, str) else reasons.get(field, '')


def set_fields(message: message_lib.Message, path: str = '') -> Iterator[Tuple[str, str, Any, Any]]:
    """The fields that are set in a config, inside repeated fields, oneofs and maps too.

    Yields:
        (path, `Message` that has the field, the field's descriptor, value), a message before its
        fields. What is inside a message that is not honoured is left out: it falls with the whole.
    """
    name = schema.short_name(message.DESCRIPTOR)
    for field, value in message.ListFields():
        here = f'{path}.{field.name}' if path else field.name
        yield here, name, field, value
        for inner, each in _held(name, field, value, here):
            yield from set_fields(each, inner)


def set_messages(
    message: message_lib.Message, path: str = ''
) -> Iterator[Tuple[str, message_lib.Message]]:
    """The honoured messages that are set in a config, with their paths; itself first."""
    yield path, message
    name = schema.short_name(message.DESCRIPTOR)
    for field, value in message.ListFields():
        here = f'{path}.{field.name}' if path else field.name
        for inner, each in _held(name, field, value, here):
            yield from set_messages(each, inner)


def _held(
    name: str, field: Any, value: Any, path: str
) -> Iterator[Tuple[str, message_lib.Message]]:
    """The messages in an honoured field of the message `name`, with their paths."""
    if not schema.is_message(field) or columns(name, field.name) != ['HONOURED']:
        return
    if schema.is_map(field):
        held = [(f'{path}.{key}', value[key]) for key in sorted(value)]
    elif schema.is_repeated(field):
        held = [(f'{path}.{index}', each) for index, each in enumerate(value)]
    else:
        held = [(path, value)]
    for inner, each in held:
        if isinstance(each, message_lib.Message):
            yield inner, each


def is_default(field: Any, value: Any) -> bool:
    """Whether a field is set to what it would be unset."""
    if schema.is_message(field) or schema.is_repeated(field):
        return False
    return value == field.default_value


def refused(config: message_lib.Message, path: str = '') -> List[Problem]:
    """Each set field of a config that is refused.

    A refused field that is set to its default asks for nothing, and is let pass.

    Args:
        config: a pipeline config, or a part of one.
        path: where in a pipeline config the part is.
    """
    found = []
    for here, message, field, value in set_fields(config, path):
        reason = refusal(message, field.name)
        condition = CONDITIONS.get(f'{message}.{field.name}')
        if reason and not is_default(field, value):
            found.append(Problem(here, f'not supported: {reason}.'))
        elif condition is not None and not condition.accepts(value, config):
            found.append(Problem(here, f'not supported: {condition.reason}.'))
    return found


def refuse(config: message_lib.Message, path: str) -> None:
    """Raises when a part of a config asks for what there is not; see `refused`.

    Raises:
        errors.ConfigError: it does; the message names every such field.
    """
    problems = refused(config, path)
    if problems:
        raise errors.ConfigError(listed(problems))


def listed(problems: Sequence[Problem]) -> str:
    """Problems as one message: a line each, below a headline where there are several."""
    if len(problems) == 1:
        return str(problems[0])
    lines = ''.join(f'\n  {problem}' for problem in problems)
    return f'the pipeline config has {len(problems)} problems:{lines}'


def without_effect(config: message_lib.Message) -> List[str]:
    """A sentence about each field of a config that is set to change something, and does not."""
    detects = is_detector(config)
    sentences = []
    for path, message, field, value in set_fields(config):
        reason = NO_EFFECT.get(message, {}).get(field.name)
        if not detects:
            reason = reason or ONLY_OF_DETECTION.get(message, {}).get(field.name)
        if reason and not is_default(field, value):
            sentences.append(f'{path} has no effect: {reason}.')
    return sentences
