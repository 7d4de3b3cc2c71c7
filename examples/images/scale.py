"""Scales a picture in the format PPM (P6), without any library: `python scale.py IN OUT WIDTH`. For trying it out."""

import sys
from pathlib import Path


def scaled(data: bytes, width: int) -> bytes:
    """The picture in this width; each pixel is the nearest one."""
    kind, old_width, old_height, _, pixels = data.split(maxsplit=4)
    if kind != b"P6":
        sys.exit(f"a picture begins with P6 and not with {kind!r}")
    columns, rows = int(old_width), int(old_height)
    height = max(1, rows * width // columns)
    out = bytearray(b"P6 %d %d 255\n" % (width, height))
    for y in range(height):
        row = y * rows // height * columns
        for x in range(width):
            at = 3 * (row + x * columns // width)
            out += pixels[at : at + 3]
    return bytes(out)


if __name__ == "__main__":
    source, target, width = sys.argv[1:]
    Path(target).write_bytes(scaled(Path(source).read_bytes(), int(width)))
