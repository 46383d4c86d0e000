from model_fns.detection import fields


def test_no_two_tensors_have_one_name():
    names = {name: value for name, value in vars(fields).items() if isinstance(value, str)}
    names = {name: value for name, value in names.items() if name[0] != '_'}
    assert len(set(names.values())) == len(names)
    # Rows of boxes are chosen together, see `data.examples`.
    assert set(fields.PER_BOX) <= set(names.values())


def test_names_that_exports_are_published_with():
    assert fields.DETECTION_BOXES == 'detection_boxes'
    assert fields.DETECTION_SCORES == 'detection_scores'
    assert fields.DETECTION_CLASSES == 'detection_classes'
    assert fields.NUM_DETECTIONS == 'num_detections'
    assert fields.DETECTION_ANCHOR_INDICES == 'detection_anchor_indices'
    assert fields.DETECTION_MULTICLASS_SCORES == 'detection_multiclass_scores'
    assert fields.RAW_DETECTION_BOXES == 'raw_detection_boxes'
    assert fields.RAW_DETECTION_SCORES == 'raw_detection_scores'
