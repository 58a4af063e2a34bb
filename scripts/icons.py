"""Draws the icons of the installed page into canvas/public/icons: the logo on a ground of its own.

    python scripts/icons.py

The files are kept in the repository; run this after a change of the drawing.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent.parent / "canvas" / "public" / "icons"
Colour = tuple[float, float, float]
Distance = Callable[[float, float], float]

TOP: Colour = (0x5B, 0x52, 0xF0)
BOTTOM: Colour = (0x34, 0x2E, 0xA3)
BOND: Colour = (0xC7, 0xC4, 0xFA)
# The atoms of icon.svg: centre, radius, colour.
ATOMS: tuple[tuple[float, float, float, Colour], ...] = (
    (9, 11, 6, (0xFF, 0xFF, 0xFF)),
    (24, 8, 4.5, (0x5E, 0xEA, 0xD4)),
    (18, 25, 5, (0xFB, 0xBF, 0x24)),
)
BONDS = ((9, 11, 24, 8), (9, 11, 18, 25))
CENTRE = (15.75, 16.75)
EXTENT = 27.0
PALETTE = 128
# Of the gradient: so few that the palette has colours left for edges, so many that no one sees them.
STEPS = 64
OPAQUE = 255
# A colour of the ground fills most of a row.
GROUND_PIXELS = 64


class Icon(NamedTuple):
    """`corner`: radius of the ground's corners, `drawing`: size of the logo; both as shares of the icon."""

    name: str
    pixels: int
    corner: float
    drawing: float


ICONS = (
    Icon("192.png", 192, 0.22, 0.66),
    Icon("512.png", 512, 0.22, 0.66),
    # Platforms cut a maskable icon to a shape of theirs: all that matters is within a circle of 80 %.
    Icon("maskable-192.png", 192, 0, 0.54),
    Icon("maskable-512.png", 512, 0, 0.54),
    Icon("apple-touch.png", 180, 0, 0.62),
)


def circle(x: float, y: float, radius: float) -> Distance:
    """Return the signed distance from a circle."""
    return lambda px, py: ((px - x) ** 2 + (py - y) ** 2) ** 0.5 - radius


def line(x: float, y: float, to_x: float, to_y: float, width: float) -> Distance:
    """Return the signed distance from a line with round ends."""
    dx, dy = to_x - x, to_y - y
    square = dx * dx + dy * dy

    def distance(px: float, py: float) -> float:
        at = min(1.0, max(0.0, ((px - x) * dx + (py - y) * dy) / square))
        return float(((px - x - at * dx) ** 2 + (py - y - at * dy) ** 2) ** 0.5 - width / 2)

    return distance


def rounded_square(side: float, corner: float) -> Distance:
    """Return the signed distance from a square at the origin."""
    half = side / 2

    def distance(px: float, py: float) -> float:
        qx, qy = abs(px - half) - half + corner, abs(py - half) - half + corner
        outside = (max(qx, 0.0) ** 2 + max(qy, 0.0) ** 2) ** 0.5
        return float(outside + min(max(qx, qy), 0.0) - corner)

    return distance


def coverage(distance: float) -> float:
    """Return how much of a pixel at this distance from an edge is inside."""
    return min(1.0, max(0.0, 0.5 - distance))


def draw(icon: Icon) -> list[list[bytes]]:
    """Return the rows of an icon, each pixel as RGBA."""
    side, scale = icon.pixels, icon.pixels * icon.drawing / EXTENT

    def place(x: float, y: float) -> tuple[float, float]:
        return side / 2 + (x - CENTRE[0]) * scale, side / 2 + (y - CENTRE[1]) * scale

    shapes: list[tuple[Distance, Colour]] = [
        (line(*place(x, y), *place(to_x, to_y), 2.5 * scale), BOND) for x, y, to_x, to_y in BONDS
    ]
    shapes += [(circle(*place(x, y), radius * scale), colour) for x, y, radius, colour in ATOMS]
    ground = rounded_square(side, icon.corner * side)
    rows = list[list[bytes]]()
    for row in range(side):
        y = row + 0.5
        pixels = list[bytes]()
        share = round(y / side * STEPS) / STEPS
        base = tuple(top + (bottom - top) * share for top, bottom in zip(TOP, BOTTOM, strict=True))
        for column in range(side):
            x = column + 0.5
            pixel = base
            for distance, colour in shapes:
                part = coverage(distance(x, y))
                if part:
                    pixel = tuple(under + (over - under) * part for under, over in zip(pixel, colour, strict=True))
            alpha = coverage(ground(x, y)) if icon.corner else 1.0
            pixels.append(bytes((*(round(each) for each in pixel), round(alpha * OPAQUE))))
        rows.append(pixels)
    return rows


def choose_palette(pixels: Counter[bytes]) -> tuple[list[bytes], dict[bytes, int]]:
    """Return a palette and the place of each colour in it: the ground is exact, edges nearly so.

    Colours of edges join in the order of their distance from those that are there, so none is far from all."""
    frequent = [colour for colour, count in pixels.items() if count >= GROUND_PIXELS][:PALETTE]
    palette, places = list[bytes](), dict[bytes, int]()
    distances = dict.fromkeys(pixels, float("inf"))
    while len(palette) < PALETTE and max(distances.values()) > 0:
        added = frequent[len(palette)] if len(palette) < len(frequent) else max(distances, key=distances.__getitem__)
        for colour, known in distances.items():
            distance = sum((one - other) ** 2 for one, other in zip(colour, added, strict=True))
            if distance < known:
                distances[colour], places[colour] = distance, len(palette)
        palette.append(added)
    return palette, places


def png(rows: list[list[bytes]]) -> bytes:
    """Return an image file of RGBA pixels, with a palette: a third of the size of one without."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    palette, places = choose_palette(Counter(pixel for row in rows for pixel in row))
    head = struct.pack(">IIBBBBB", len(rows), len(rows), 8, 3, 0, 0, 0)
    content = b"".join(b"\0" + bytes(places[pixel] for pixel in row) for row in rows)
    body = chunk(b"IHDR", head) + chunk(b"PLTE", b"".join(each[:3] for each in palette))
    if any(each[3] < OPAQUE for each in palette):
        body += chunk(b"tRNS", bytes(each[3] for each in palette))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IDAT", zlib.compress(content, 9)) + chunk(b"IEND", b"")


def main() -> None:
    """Write all icons."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for icon in ICONS:
        (FOLDER / icon.name).write_bytes(png(draw(icon)))


if __name__ == "__main__":
    main()
