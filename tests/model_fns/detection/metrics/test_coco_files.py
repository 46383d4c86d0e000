"""Files of an evaluation: pycocotools computes the same digits from them."""

import contextlib
import io
import json

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from model_fns.detection.metrics import coco, coco_keypoints, shapes
from model_fns.detection.metrics.coco import GROUNDTRUTH_FILE, RESULTS_FILES, CocoFiles
from tests.model_fns.detection.metrics.scenes import random_image, random_keypoints, random_masks
from tests.model_fns.detection.metrics.test_coco_keypoints import PERSON

KEYS = {'bbox': 'bbox', 'segm': 'segmentation'}
NAMES = {1: 'one', 2: 'two', 3: 'three'}
SUMMARY = (
    'Precision/mAP',
    'Precision/mAP@.50IOU',
    'Precision/mAP@.75IOU',
    'Precision/mAP (small)',
    'Precision/mAP (medium)',
    'Precision/mAP (large)',
)


def evaluated(folder, kind):
    """Return the numbers that pycocotools computes from the files."""
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO(str(folder / GROUNDTRUTH_FILE))
        evaluation = COCOeval(known, known.loadRes(str(folder / RESULTS_FILES[KEYS[kind]])), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats


@pytest.mark.parametrize(
    ('kind', 'draw', 'shape', 'prefix'),
    [
        ('bbox', random_image, shapes.BOXES, coco.PREFIX),
        ('segm', random_masks, shapes.MASKS, coco.MASK_PREFIX),
    ],
)
def test_pycocotools_gets_the_printed_digits(tmp_path, kind, draw, shape, prefix):
    rng = np.random.RandomState(3)
    images = [draw(rng, len(NAMES)) for _ in range(12)]
    printed = coco.CocoEvaluator(NAMES, shape=shape, prefix=prefix)
    files = CocoFiles(NAMES, str(tmp_path), printed.needs)
    for run in range(2):  # a second evaluation replaces the files
        files.clear()
        for index, (truth, found) in enumerate(images):
            files.add_image(f'{index}.jpg', truth, found)
            if not run:
                printed.add_image(str(index), truth, found)
        assert files.evaluate() == {} and not files.names()
    metrics = printed.evaluate()
    expected = evaluated(tmp_path, kind)
    assert [f'{metrics[prefix + name]:.9f}' for name in SUMMARY] == [
        f'{value:.9f}' for value in expected[:6]
    ]
    content = json.loads((tmp_path / GROUNDTRUTH_FILE).read_text())
    assert content['images'][3]['id'] == 4 and content['images'][3]['file_name'] == '3.jpg'
    assert content['categories'][0] == {'id': 1, 'name': 'one'}


def test_keypoints_as_well(tmp_path):
    rng = np.random.RandomState(4)
    images = [random_keypoints(rng, len(NAMES)) for _ in range(8)]
    printed = coco_keypoints.CocoKeypointEvaluator(NAMES, {1: PERSON})
    files = CocoFiles(NAMES, str(tmp_path), printed.needs)
    for index, (truth, found) in enumerate(images):
        files.add_image(str(index), truth, found)
        printed.add_image(str(index), truth, found)
    files.evaluate()
    values = list(printed.evaluate().values())
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO(str(tmp_path / GROUNDTRUTH_FILE))
        evaluation = COCOeval(
            known, known.loadRes(str(tmp_path / RESULTS_FILES['keypoints'])), 'keypoints'
        )
        evaluation.params.catIds = [1]
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    assert values == pytest.approx(evaluation.stats.tolist(), abs=1e-9)
