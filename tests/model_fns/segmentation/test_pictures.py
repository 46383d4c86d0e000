import numpy as np
import tensorflow as tf

from estimator_lib.drawing import visualization
from model_fns.segmentation import fields, pictures
from model_fns.segmentation.data import presets
from model_fns.segmentation.pictures import SegmentationPresentation
from protos import segmentation_pb2

CAMVID = presets.get_dataset('camvid')
SIZE = (300, 400)
LABELS = np.full(SIZE, 3)
LABELS[:100] = 0
LABELS[200:, :50] = 11  # ignored
PREDICTED = np.full(SIZE, 3)
PREDICTED[:120] = 0


def features(padding=0):
    image = np.full((SIZE[0] + padding, SIZE[1] + padding, 3), 80.4, np.float32)
    return {fields.IMAGE: image, fields.TRUE_IMAGE_SHAPE: np.array([*SIZE, 3])}


def padded(values, padding, filler):
    return np.pad(values, [[0, padding], [0, padding]], constant_values=filler)


def colors_of(picture):
    return {tuple(color) for color in picture.reshape(-1, 3).tolist()}


def test_image_label_and_prediction_stand_side_by_side():
    drawer = SegmentationPresentation(CAMVID)
    labels = {fields.SEMANTIC: padded(LABELS, 20, 11)}
    outputs = {fields.SEMANTIC_PREDICTIONS: padded(PREDICTED, 20, 9)}
    picture = drawer.draw(features(20), outputs, labels)
    assert picture.dtype == np.uint8
    width = 400 + 8  # the panels have gaps of 8 pixels
    assert picture.shape[1] == 3 * width - 8
    np.testing.assert_array_equal(picture[:300, :400], 80)
    np.testing.assert_array_equal(picture[:300, width : width + 400], CAMVID.colored(LABELS))
    np.testing.assert_array_equal(picture[:300, 2 * width :], CAMVID.colored(PREDICTED))
    # Nothing of the padding, which is predicted as pedestrian.
    assert CAMVID.class_colors[9] not in colors_of(picture)


def test_without_labels_as_an_exported_model_is_drawn():
    drawer = SegmentationPresentation(CAMVID)
    image = np.full((*SIZE, 3), 33, np.uint8)
    picture = drawer.draw({fields.IMAGE: image}, {fields.SEMANTIC_PREDICTIONS: PREDICTED})
    assert picture.shape[1] == 2 * 408 - 8
    np.testing.assert_array_equal(picture[:300, :400], 33)


def test_captions_name_the_largest_classes_first():
    drawer = SegmentationPresentation(CAMVID)
    road, sky = (CAMVID.class_colors[index] for index in (3, 0))
    assert drawer._legend(LABELS) == [('road', road), ('sky', sky)]
    assert drawer._legend(np.full([2, 2], 11)) == []
    picture = drawer.draw(features(), {fields.SEMANTIC_PREDICTIONS: PREDICTED})
    assert {road, sky} <= colors_of(picture[300:])


def test_outlines_are_thicker_in_larger_pictures():
    ids = np.zeros([9, 20], int)
    ids[:, 5:15] = 1
    assert np.flatnonzero(pictures._outline(ids, 2)[4]).tolist() == [5, 6, 13, 14]


def test_further_heads_have_a_row_each():
    drawer = SegmentationPresentation(CAMVID)
    ids = np.zeros(SIZE, int)
    ids[20:40, 20:60] = 1
    ids[20:40, 60:90] = 2
    heat = np.zeros(SIZE, np.float32)
    heat[30, 40] = 1.0
    edges = np.zeros(SIZE, int)
    edges[100] = 1
    outputs = {
        fields.SEMANTIC_PREDICTIONS: PREDICTED,
        fields.INSTANCE_PREDICTIONS: ids,
        fields.INSTANCE_CENTERS: heat,
        fields.EDGE_PREDICTIONS: edges,
    }
    labels = {
        fields.SEMANTIC: LABELS,
        fields.INSTANCES: ids,
        fields.CENTER: heat,
        fields.EDGE: edges,
    }
    whole = drawer.draw(features(), outputs, labels)
    semantic = {fields.SEMANTIC_PREDICTIONS: PREDICTED}
    alone = drawer.draw(features(), semantic, {fields.SEMANTIC: LABELS})
    assert whole.shape[0] == 4 * alone.shape[0] + 3 * 8
    assert whole.shape[1] == alone.shape[1]
    assert (255, 90, 40) in colors_of(whole)
    without_labels = drawer.draw(features(), outputs)
    assert without_labels.shape[0] == whole.shape[0]
    assert not np.array_equal(without_labels, whole)


def test_instances_have_outlines():
    ids = np.zeros([8, 8], int)
    ids[1:4, 1:4] = 5
    ids[1:4, 4:7] = 9
    outline = pictures._outline(ids)
    expected = ids > 0
    expected[2, 2] = expected[2, 5] = False
    np.testing.assert_array_equal(outline, expected)
    picture = pictures._instances(np.full([8, 8, 3], 50, np.uint8), ids)
    np.testing.assert_array_equal(picture[ids == 0], 50)
    assert tuple(picture[1, 1]) != tuple(picture[2, 2]) != (50, 50, 50)
    assert tuple(picture[1, 1]) != tuple(picture[1, 4])


def test_edges_of_classes_have_their_colors():
    edges = np.zeros([4, 4], int)
    edges[1], edges[2], edges[3] = 3, 8, 11
    drawn = SegmentationPresentation(CAMVID)._edges(np.full([4, 4, 3], 100, np.uint8), edges)
    np.testing.assert_array_equal(drawn[1, 0], CAMVID.class_colors[3])
    np.testing.assert_array_equal(drawn[2, 0], CAMVID.class_colors[8])
    np.testing.assert_array_equal(drawn[[0, 3], 0], 35)


def test_raw_predictions_are_gray_files_of_ids():
    model = segmentation_pb2.Segmentation()
    model.evaluation.save_raw_predictions = True
    presentation = SegmentationPresentation(presets.get_dataset('cityscapes'), model)
    outputs = {fields.SEMANTIC_PREDICTIONS: padded(PREDICTED, 20, 9)}
    content = presentation.files(features(20), outputs)['_raw.png']
    decoded = tf.io.decode_png(content, dtype=tf.uint8).numpy()
    np.testing.assert_array_equal(decoded[..., 0], np.where(PREDICTED == 0, 7, 12))


def test_small_images_without_anything_in_them():
    config = segmentation_pb2.Segmentation(num_classes=2)
    drawer = SegmentationPresentation(presets.from_config(config))
    nothing = np.zeros([8, 8], int)
    outputs = {
        fields.SEMANTIC_PREDICTIONS: nothing,
        fields.INSTANCE_PREDICTIONS: nothing,
        fields.INSTANCE_CENTERS: np.full([8, 8], np.nan),
        fields.EDGE_PREDICTIONS: nothing,
    }
    picture = drawer.draw({fields.IMAGE: np.full([8, 8, 3], np.nan)}, outputs)
    assert picture.shape[1] == 2 * 240 + 8


def test_targets_alone_stand_beside_the_image():
    drawer = SegmentationPresentation(CAMVID)
    picture = drawer.draw(features(), {}, {fields.SEMANTIC: LABELS})
    assert picture.shape[1] == 2 * 408 - 8
    np.testing.assert_array_equal(picture[:300, 408:], CAMVID.colored(LABELS))


def test_more_instances_than_a_gray_png_holds():
    ids = np.array([[0, 1, 65535], [70000, 300, 0]])
    outputs = {fields.SEMANTIC_PREDICTIONS: np.ones([2, 3], int)}
    image = {fields.IMAGE: np.zeros([2, 3, 3], np.uint8)}
    for values, channels in ((np.minimum(ids, 65535), 1), (ids, 3)):
        outputs[fields.INSTANCE_PREDICTIONS] = values
        files = SegmentationPresentation(CAMVID).id_pngs(image, outputs)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            dtype = tf.uint16 if channels == 1 else tf.uint8
            decoded = session.run(tf.io.decode_png(files['_instances.png'], dtype=dtype))
        assert decoded.shape[2] == channels
        np.testing.assert_array_equal(decoded.astype(int) @ (256 ** np.arange(channels)), values)


def test_large_images_are_drawn_smaller(monkeypatch):
    monkeypatch.setattr(visualization, '_MOST_PIXELS', SIZE[0] * SIZE[1])
    outputs = {fields.SEMANTIC_PREDICTIONS: np.kron(PREDICTED, np.ones([3, 3], int))}
    image = np.full([900, 1200, 3], 33, np.uint8)
    picture = SegmentationPresentation(CAMVID).draw({fields.IMAGE: image}, outputs)
    assert picture.shape[1] == 2 * 408 - 8
    np.testing.assert_array_equal(picture[:300, :400], 33)
    np.testing.assert_array_equal(picture[:300, 408:], CAMVID.colored(PREDICTED))
