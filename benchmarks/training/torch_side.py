"""Other side of `beside_torch`: a training step of a network of torchvision or timm.

It runs in a Python that has those packages, and prints the least seconds of a step in JSON.
Convolutional networks have the layout `channels_last`, which is the faster one.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Callable, Mapping, Sequence

from benchmarks import measuring

_LEARNING_RATE, _MOMENTUM, _WEIGHT_DECAY = 1e-4, 0.9, 1e-4
_BOXES = 4  # in each image


def measure(settings: Mapping[str, Any]) -> Sequence[float]:
    """Return the least seconds of a step, by the clock and of the processor.

    Args:
        settings: `beside_torch.describe`, the type, and the numbers of steps.
    """
    torch = importlib.import_module('torch')
    torch.manual_seed(0)
    torch.set_num_threads(len(os.sched_getaffinity(0)))  # as many as TensorFlow takes
    kind, _, name = settings['network'].partition(':')
    build = {'detection': _detector, 'segmentation': _segmenter}.get(kind, _classifier)
    model, loss = build(torch, kind, name, settings)
    optimizer = torch.optim.SGD(
        model.parameters(), _LEARNING_RATE, _MOMENTUM, weight_decay=_WEIGHT_DECAY
    )

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cpu', torch.bfloat16, enabled=settings['dtype'] == 'bfloat16'):
            total = loss()
        total.backward()
        optimizer.step()

    for _ in range(settings['warm_up']):
        step()
    return measuring.least([measuring.timed(step) for _ in range(settings['runs'])])


def _classifier(torch: Any, kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Return a classifier in training, and a function of its loss on random images."""
    count, size, classes = (settings[key] for key in ('batch_size', 'size', 'num_classes'))
    if kind == 'timm':
        model = importlib.import_module('timm').create_model(name, num_classes=classes)
    else:
        model = importlib.import_module('torchvision').models.get_model(name, num_classes=classes)
    model = model.train().to(memory_format=torch.channels_last)
    images = torch.randn(count, 3, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (count,))

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(model(images), labels)

    return model, loss


def _detector(torch: Any, kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Return a detector in training, and a function of its loss on random images and boxes.

    Nothing is frozen: without weights to start from, torchvision trains all batch norms.
    """
    del kind
    count, size, classes = (settings[key] for key in ('batch_size', 'size', 'num_classes'))
    detection = importlib.import_module('torchvision.models.detection')
    create: Callable[..., Any] = getattr(detection, name)
    model = create(
        weights=None, weights_backbone=None, num_classes=classes, **_options(name, settings)
    )
    model = model.train().to(memory_format=torch.channels_last)
    images = list(torch.rand(count, 3, size, size))
    corners = torch.rand(count, _BOXES, 2) * size / 2
    boxes = torch.cat([corners, corners + size / 4], -1)
    labels = torch.randint(1, classes, (count, _BOXES))
    targets = [{'boxes': boxes[index], 'labels': labels[index]} for index in range(count)]

    def loss() -> Any:
        return sum(model(images, targets).values())

    return model, loss


def _options(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a detector that make it the network of the config."""
    if name.startswith('ssdlite320'):
        return {}  # the size is a part of the network
    size = {'min_size': settings['size'], 'max_size': settings['size']}
    if not name.startswith('retinanet'):
        return {
            **size,
            'rpn_post_nms_top_n_train': settings['proposals'],
            'rpn_batch_size_per_image': settings['region_batch'],
            'box_batch_size_per_image': settings['box_batch'],
        }
    anchors = importlib.import_module('torchvision.models.detection.anchor_utils')
    sides = tuple((side, round(side * 2**0.5)) for side in (32, 64, 128, 256, 512))
    ratios = ((0.5, 1.0, 2.0),) * len(sides)
    return {**size, 'anchor_generator': anchors.AnchorGenerator(sides, ratios)}


def _segmenter(torch: Any, kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Return a DeepLab in training, and a function of its loss on random images and classes.

    As in the published DeepLab, the last stage of MobileNet V3 has half of the channels, and no 3x3
    convolution follows on the pyramid.
    """
    del kind
    count, size, classes = (settings[key] for key in ('batch_size', 'size', 'num_classes'))
    create = importlib.import_module('torchvision.models').get_model
    backbone = create(name, dilated=True, reduced_tail=True)
    deeplab = importlib.import_module('torchvision.models.segmentation.deeplabv3')
    model = deeplab._deeplabv3_mobilenetv3(backbone, classes, aux=None)
    pyramid, *_, logits = model.classifier
    model.classifier = torch.nn.Sequential(pyramid, logits)
    model = model.train().to(memory_format=torch.channels_last)
    images = torch.randn(count, 3, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (count, size, size))

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(model(images)['out'], labels)

    return model, loss


if __name__ == '__main__':
    print(json.dumps(measure(json.loads(sys.argv[1]))))
