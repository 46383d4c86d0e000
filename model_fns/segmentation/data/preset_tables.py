"""Tables of published data sets for segmentation: names and colors of their classes."""

from __future__ import annotations

from typing import Dict, Tuple

from estimator_lib.drawing.colors import Color

# Pascal VOC 2012: the background and the 20 classes in alphabetical order.
_PASCAL_VOC = (
    'background aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse '
    'motorbike person pottedplant sheep sofa train tvmonitor'
)
PASCAL_VOC = tuple(_PASCAL_VOC.split())

# Cityscapes: the 19 classes that are trained on.
CITYSCAPES: Dict[str, Color] = {
    'road': (128, 64, 128),
    'sidewalk': (244, 35, 232),
    'building': (70, 70, 70),
    'wall': (102, 102, 156),
    'fence': (190, 153, 153),
    'pole': (153, 153, 153),
    'traffic light': (250, 170, 30),
    'traffic sign': (220, 220, 0),
    'vegetation': (107, 142, 35),
    'terrain': (152, 251, 152),
    'sky': (70, 130, 180),
    'person': (220, 20, 60),
    'rider': (255, 0, 0),
    'car': (0, 0, 142),
    'truck': (0, 0, 70),
    'bus': (0, 60, 100),
    'train': (0, 80, 100),
    'motorcycle': (0, 0, 230),
    'bicycle': (119, 11, 32),
}
# Their ids in the files of labels and on the evaluation server.
CITYSCAPES_LABEL_IDS = (7, 8, 11, 12, 13, 17, *range(19, 29), 31, 32, 33)

# CamVid: the 11 classes that are commonly trained on.
CAMVID: Dict[str, Color] = {
    'sky': (128, 128, 128),
    'building': (128, 0, 0),
    'pole': (192, 192, 128),
    'road': (128, 64, 128),
    'pavement': (60, 40, 222),
    'tree': (128, 128, 0),
    'sign symbol': (192, 128, 128),
    'fence': (64, 64, 128),
    'car': (64, 0, 128),
    'pedestrian': (64, 64, 0),
    'bicyclist': (0, 128, 192),
}

# ADE20K (scene parsing): unlabeled pixels, then 150 classes by decreasing area.
_ADE20K = (
    'other, wall, building, sky, floor, tree, ceiling, road, bed, window, grass, cabinet, '
    'sidewalk, person, earth, door, table, mountain, plant, curtain, chair, car, water, '
    'painting, sofa, shelf, house, sea, mirror, rug, field, armchair, seat, fence, desk, '
    'rock, wardrobe, lamp, bathtub, railing, cushion, base, box, column, signboard, chest '
    'of drawers, counter, sand, sink, skyscraper, fireplace, refrigerator, grandstand, '
    'path, stairs, runway, case, pool table, pillow, screen door, stairway, river, '
    'bridge, bookcase, blind, coffee table, toilet, flower, book, hill, bench, '
    'countertop, stove, palm, kitchen island, computer, swivel chair, boat, bar, arcade '
    'machine, hovel, bus, towel, light, truck, tower, chandelier, awning, streetlight, '
    'booth, television, airplane, dirt track, apparel, pole, land, bannister, escalator, '
    'ottoman, bottle, buffet, poster, stage, van, ship, fountain, conveyer belt, canopy, '
    'washer, plaything, swimming pool, stool, barrel, basket, waterfall, tent, bag, '
    'minibike, cradle, oven, ball, food, step, tank, trade name, microwave, pot, animal, '
    'bicycle, lake, dishwasher, screen, blanket, sculpture, hood, sconce, vase, traffic '
    'light, tray, ashcan, fan, pier, crt screen, plate, monitor, bulletin board, shower, '
    'radiator, glass, clock, flag'
)
ADE20K = tuple(_ADE20K.split(', '))
# Of these 150, as red, green and blue.
_ADE20K_COLORS = (
    '787878 b47878 06e6e6 503232 04c803 787850 8c8c8c cc05ff e6e6e6 04fa07 e005ff '
    'ebff07 96053d 787846 08ff33 ff0652 8fff8c ccff04 ff3307 cc4603 0066c8 3de6fa '
    'ff0633 0b66ff ff0747 ff09e0 0907e6 dcdcdc ff095c 7009ff 08ffd6 07ffe0 ffb806 '
    '0aff47 ff290a 07ffff e0ff08 6608ff ff3d06 ffc207 ff7a08 00ff14 ff0829 ff0599 '
    '0633ff eb0cff a09614 00a3ff 8c8c8c fa0a0f 14ff00 1fff00 ff1f00 ffe000 99ff00 '
    '0000ff ff4700 00ebff 00adff 1f00ff 0bc8c8 ff5200 00fff5 003dff 00ff70 00ff85 '
    'ff0000 ffa300 ff6600 c2ff00 008fff 33ff00 0052ff 00ff29 00ffad 0a00ff adff00 '
    '00ff99 ff5c00 ff00ff ff00f5 ff0066 ffad00 ff0014 ffb8b8 001fff 00ff3d 0047ff '
    'ff00cc 00ffc2 00ff52 000aff 0070ff 3300ff 00c2ff 007aff 00ffa3 ff9900 00ff0a '
    'ff7000 8fff00 5200ff a3ff00 ffeb00 08b8aa 8500ff 00ff5c b800ff ff001f 00b8ff '
    '00d6ff ff0070 5cff00 00e0ff 70e0ff 46b8a0 a300ff 9900ff 47ff00 ff00a3 ffcc00 '
    'ff008f 00ffeb 85ff00 ff00eb f500ff ff007a fff500 0abed4 d6ff00 00ccff 1400ff '
    'ffff00 0099ff 0029ff 00ffcc 2900ff 29ff00 ad00ff 00f5ff 4700ff 7a00ff 00ffb8 '
    '005cff b8ff00 0085ff ffd600 19c2c2 66ff00 5c00ff'
)
ADE20K_COLORS: Tuple[Color, ...] = tuple(
    (code[0], code[1], code[2]) for code in map(bytes.fromhex, _ADE20K_COLORS.split())
)
