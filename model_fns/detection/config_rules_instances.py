"""Rules of masks and keypoints: what asks for them, and the readers that read them."""

from __future__ import annotations

from typing import Iterator, Tuple

from estimator_lib import errors
from estimator_lib.config.rules import PipelineConfig, Problem
from model_fns.detection import metrics
from protos import input_reader_pb2

# A reader's field, and the one of a two-stage head that learns what it reads.
_LEARNED_BY = (
    ('load_instance_masks', 'predict_instance_masks'),
    ('num_keypoints', 'predict_keypoints'),
)
_STAGES = 3  # of which the last one tells masks and keypoints


def check_readers(config: PipelineConfig) -> Iterator[Problem]:
    """Masks and keypoints that are asked for, and not read."""
    for field, head in _LEARNED_BY:
        if _predicts(config, head):
            reason = f'the model learns them by {head}'
            for path, reader in _readers(config):
                yield from _unread(path, reader, field, reason)
    try:
        needs = metrics.needs_of(config.eval_config)
    except errors.ConfigError:
        return  # what is wrong with the names of sets is said where they are checked
    for (field, head), name in zip(_LEARNED_BY, needs):
        if name is not None and not _predicts(config, head):
            for path, reader in _readers(config):
                if not path.startswith('train'):
                    yield from _unread(path, reader, field, f'eval_config asks for {name}')


def doubts(config: PipelineConfig) -> Iterator[str]:
    """Masks and keypoints that are read, and that nothing is learned from."""
    for field, head in _LEARNED_BY:
        if getattr(config.train_input_reader, field) and not _predicts(config, head):
            yield (
                f'train_input_reader.{field} is for pictures of the groundtruth only: '
                'the model does not learn from it.'
            )


def _predicts(config: PipelineConfig, head: str) -> bool:
    model = config.model.faster_rcnn
    predictor = model.second_stage_box_predictor.mask_rcnn_box_predictor
    return model.number_of_stages == _STAGES and getattr(predictor, head)


def _readers(config: PipelineConfig) -> Iterator[Tuple[str, input_reader_pb2.InputReader]]:
    if config.HasField('train_input_reader'):
        yield 'train_input_reader', config.train_input_reader
    for index, reader in enumerate(config.eval_input_reader):
        yield f'eval_input_reader.{index}', reader


def _unread(
    path: str, reader: input_reader_pb2.InputReader, field: str, reason: str
) -> Iterator[Problem]:
    if not getattr(reader, field):
        expected = 'true' if field == 'load_instance_masks' else 'how many an object has'
        what = 'masks are' if field == 'load_instance_masks' else 'keypoints are'
        yield Problem(f'{path}.{field}', f'{what} not read, but {reason}; expected {expected}.')
