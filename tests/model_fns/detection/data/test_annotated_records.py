import numpy as np

from model_fns.datasets.meaning import checks
from model_fns.datasets.meaning.annotated import CROWD, DIFFICULT, UNWEIGHTED
from model_fns.detection.boxes import axis_aligned, quadrilaterals
from model_fns.detection.data import annotated_records
from protos import input_reader_pb2
from tests.model_fns.detection.records import mask_png, png, record

SIZE = (20, 30)


def annotate(serialized, family=axis_aligned, mask_type=None):
    return annotated_records.annotate(serialized, SIZE, 1, family, mask_type)


def test_flags_labels_and_boxes():
    boxes = [[0.1, 0.2, 0.5, 0.6]] * 4
    flags = {'is_crowd': [0, 1, 0, 0], 'difficult': [0, 0, 1, 0], 'weight': [1.0, 0.0, 1.0, 0.0]}
    image = annotate(record(boxes, [0, 1, 2, 3], source_id='a.png', **flags))
    assert [item.ignored for item in image.objects] == ['', CROWD, DIFFICULT, UNWEIGHTED]
    assert [item.label for item in image.objects] == [0, 1, 2, 3]
    np.testing.assert_allclose(image.objects[0].numbers, [0.2, 0.1, 0.6, 0.5], rtol=1e-6)
    assert image.objects[1].place == 'a.png: box 2' and image.source_id == 'a.png'
    named = annotate(record(boxes, [], texts=['a', 'b', 'c', 'd']))
    assert [item.label for item in named.objects] == [None] * 4


def test_other_families_have_no_numbers():
    image = annotate(record([], [1], texts=['a']), family=quadrilaterals)
    assert image.objects[0].numbers is None


def test_boxes_that_are_not_around_their_masks():
    # The mask is at rows 12 to 18, the box at rows 2 to 8 of 20: measured from the bottom.
    mask = np.zeros([20, 30])
    mask[12:18, 3:12] = 1
    kind = input_reader_pb2.PNG_MASKS
    boxes = {'good': [0.6, 0.1, 0.9, 0.4], 'mirrored': [0.1, 0.1, 0.4, 0.4]}
    reports = {}
    for name, box in boxes.items():
        masks = [mask_png(mask)]
        images = [png(20, 30, value=index) for index in range(4)]
        records = [
            record([box], [1], source_id=f'{index}', masks=masks, encoded=image)
            for index, image in enumerate(images)
        ]
        reports[name] = checks.find(annotate(each, mask_type=kind) for each in records)
    assert reports['good'] == []
    (issue,) = reports['mirrored']
    assert 'all 4 boxes make no sense' in str(issue)
    assert 'y measured from the bottom of the image' in str(issue)
