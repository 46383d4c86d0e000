"""Published tables: how many classes there are, and some whose place is well known."""

from model_fns.segmentation.data import preset_tables as tables


def test_pascal_voc():
    assert len(set(tables.PASCAL_VOC)) == len(tables.PASCAL_VOC) == 21
    assert (tables.PASCAL_VOC[0], tables.PASCAL_VOC[15]) == ('background', 'person')


def test_cityscapes():
    assert len(tables.CITYSCAPES) == len(set(tables.CITYSCAPES.values())) == 19
    assert list(tables.CITYSCAPES)[11:14] == ['person', 'rider', 'car']
    ids = dict(zip(tables.CITYSCAPES, tables.CITYSCAPES_LABEL_IDS))
    assert (ids['road'], ids['person'], ids['bus'], ids['bicycle']) == (7, 24, 28, 33)
    assert len(tables.CITYSCAPES_LABEL_IDS) == 19


def test_camvid():
    assert len(set(tables.CAMVID.values())) == 11
    assert tables.CAMVID['road'] == (128, 64, 128)


def test_ade20k():
    assert len(tables.ADE20K) == 151 and len(tables.ADE20K_COLORS) == 150
    assert (tables.ADE20K[1], tables.ADE20K[13], tables.ADE20K[150]) == ('wall', 'person', 'flag')
    assert tables.ADE20K_COLORS[0] == (120, 120, 120)
    assert all(0 <= part <= 255 for color in tables.ADE20K_COLORS for part in color)
