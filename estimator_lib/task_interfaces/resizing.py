"""Rules by which a program of any language brings an image to the input of a file.

`Resize` says it three times: as a text for metadata, as lines of a NumPy program, and (in
`Deployable.pixels`) as a graph. Tests compare the program with the graph.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

STRETCH, CENTRAL_CROP, KEEP_ASPECT, SHRINK = 'stretch', 'central_crop', 'keep_aspect', 'shrink'
INSIDE = 'inside'

# Bilinear interpolation without antialiasing, as the networks were trained. Pillow's resize differs
# where it reduces an image.
# The scale is float32, as in TensorFlow's kernel: in float64, some places would lie on the other
# side of a pixel.
FUNCTION = """
def resized(image, height, width, aligns_corners=False):
    for axis, side in enumerate((height, width)):
        old = image.shape[axis]
        scale = (old - 1) / max(side - 1, 1) if aligns_corners else old / side
        places = np.arange(side, dtype=np.float32) * np.float32(scale)
        low = np.minimum(places.astype(int), old - 1)
        share = (places - low).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        high = np.minimum(low + 1, old - 1)
        image = image.take(low, axis) * (1 - share) + image.take(high, axis) * share
    return image
"""


class Resize(NamedTuple):
    """Rule of an image's size, always with bilinear interpolation.

    Attributes:
        rule: `STRETCH`: to the size of the input; `CENTRAL_CROP`: the same, of the middle of the
            image; `KEEP_ASPECT`: by one factor for both sides; `SHRINK`: as `KEEP_ASPECT`, but a
            smaller image stays; `INSIDE`: the file resizes itself.
        fraction: of each side, of `CENTRAL_CROP`.
        sides: of `KEEP_ASPECT`: the shorter side of the result, unless the longer one would exceed
            the second number.
        padding: color of the padding at the bottom and right; None: there is none.
        aligns_corners: whether the centers of the corner pixels stay where they are.
    """

    rule: str = STRETCH
    fraction: float = 1.0
    sides: Tuple[int, int] = (0, 0)
    padding: Optional[Tuple[float, ...]] = None
    aligns_corners: bool = False

    def __str__(self) -> str:
        """Return the rule as one line: `stretch`, `central_crop 0.875`, `keep_aspect 600 1024`."""
        words: List[str] = [self.rule]
        if self.rule == CENTRAL_CROP:
            words.append(f'{self.fraction:g}')
        if self.rule == KEEP_ASPECT:
            words += map(str, self.sides)
        if self.padding is not None:
            words += ['pad', *(f'{value:.6g}' for value in self.padding)]
        return ' '.join(words)

    def program(self, size: Sequence[Optional[int]]) -> List[str]:
        """Return lines of Python that compute `pixels` and `content` from `image`.

        `image` is an array [height, width, 3], and `size` its height and width. `pixels` is the
        input, and `content` the height and width of the image in it.

        Args:
            size: height and width of the input; None: any.
        """
        if self.rule == INSIDE:
            return ['content, pixels = size, image']
        corners = ', True' if self.aligns_corners else ''
        lines = {
            STRETCH: [f'content = {tuple(size)}'],
            CENTRAL_CROP: [
                f'top, left = (int((side - side * {self.fraction}) / 2) for side in size)',
                'part = image[top : size[0] - top, left : size[1] - left]',
                f'content = {tuple(size)}',
            ],
            KEEP_ASPECT: [
                # `np.rint` rounds halves to the even neighbor, as `tf.round` in `resize_to_range`
                # of the Object Detection API.
                'sides = np.array(size, np.float32)',
                f'content = np.rint(sides * np.float32({self.sides[0]} / sides.min()))',
                f'if content.max() > {self.sides[1]}:',
                f'    content = np.rint(sides * np.float32({self.sides[1]} / sides.max()))',
                'content = np.maximum(content.astype(int), 1)',
            ],
            SHRINK: [
                f'sides, room = np.array(size), np.array({tuple(size)})',
                'factors = (sides * room[:, np.newaxis] // sides[:, np.newaxis]).min(0)',
                'content = np.maximum(factors, 1) if (sides > room).any() else sides',
            ],
        }[self.rule]
        source = 'part' if self.rule == CENTRAL_CROP else 'image'
        lines = [*lines, f'pixels = resized({source}, *content{corners})']
        if self.padding is not None:
            lines += [
                f'padded = np.tile(np.float32({list(self.padding)}), ({size[0]}, {size[1]}, 1))',
                'padded[: content[0], : content[1]] = pixels',
                'pixels = padded',
            ]
        return lines
