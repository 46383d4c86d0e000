"""Declared batches of detectors, by what the model, the reader and the metrics are."""

import types

import pytest

from estimator_lib.task_interfaces.batch_specs import ALWAYS, EVALUATION, LEARNING
from model_fns.detection import batch_spec, fields
from model_fns.detection.boxes import axis_aligned, quadrilaterals


def declared(outputs=(), pads=False, family=axis_aligned, context=None, needs=(), **reader):
    """Return the declared tensors of a detector by name."""
    spec = batch_spec.batch_spec(
        types.SimpleNamespace(
            outputs=frozenset(outputs),
            resizer=types.SimpleNamespace(pads=pads),
            channels=types.SimpleNamespace(total=4),
            num_classes=7,
            family=family,
        ),
        types.SimpleNamespace(context=context, **{'mask_type': None, 'keypoints': None, **reader}),
        types.SimpleNamespace(needs=frozenset(needs)),
    )
    return {tensor.name: tensor for tensor in (*spec.features, *spec.labels)}


@pytest.mark.parametrize(('family', 'values'), [(axis_aligned, 4), (quadrilaterals, 8)])
def test_sizes_are_those_of_the_model(family, values):
    tensors = declared(family=family)
    assert tensors[fields.IMAGE].form() == 'float32 [batch, height, width, 4]'
    assert tensors[fields.BOXES].form() == f'float32 [batch, M, {values}]'
    assert tensors[fields.CLASSES].shape == ('batch', 'M', 7)


@pytest.mark.parametrize(
    ('name', 'options', 'needed'),
    [
        (fields.TRUE_IMAGE_SHAPE, {'pads': True}, ALWAYS),
        (fields.CONTEXT_FEATURES, {'context': object()}, ALWAYS),
        (fields.MASKS, {'mask_type': 1, 'outputs': [fields.DETECTION_MASKS]}, LEARNING),
        (fields.MASK_WEIGHTS, {'needs': [fields.MASKS]}, EVALUATION),
        (
            fields.KEYPOINTS,
            {'keypoints': object(), 'outputs': [fields.DETECTION_KEYPOINTS]},
            LEARNING,
        ),
    ],
)
def test_models_need_only_what_they_use(name, options, needed):
    assert declared()[name].needed == frozenset()
    assert declared(**options)[name].needed == needed
