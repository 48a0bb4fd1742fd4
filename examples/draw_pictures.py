"""Draw pictures of animals, for trying NISPA out without a camera: python examples/draw_pictures.py photos

Three folders of class folders (pets, farm, garden), and photos/farm-test with pictures of its own.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

SIDE = 64
Draw = ImageDraw.ImageDraw
Animal = Callable[[Draw, random.Random], None]


def colour(rng: random.Random, base: tuple[int, int, int]) -> tuple[int, int, int]:
    return tuple(max(0, min(255, c + rng.randint(-30, 30))) for c in base)  # type: ignore[return-value]


def head(draw: Draw, fill: tuple[int, int, int], width: int = 18, height: int = 16) -> None:
    draw.ellipse((32 - width, 36 - height, 32 + width, 36 + height), fill=fill, outline=(30, 30, 30))
    for x in (25, 39):
        draw.ellipse((x - 2, 30, x + 2, 34), fill=(20, 20, 20))


def cat(draw: Draw, rng: random.Random) -> None:
    fur = colour(rng, rng.choice([(150, 150, 150), (220, 150, 80)]))
    for x in (20, 44):
        draw.polygon([(x - 8, 28), (x, 8), (x + 8, 28)], fill=fur, outline=(30, 30, 30))
    head(draw, fur)
    for y in (39, 42, 45):
        draw.line((10, y, 26, 41), fill=(20, 20, 20))
        draw.line((38, 41, 54, y), fill=(20, 20, 20))


def dog(draw: Draw, rng: random.Random) -> None:
    fur = colour(rng, rng.choice([(160, 110, 60), (200, 170, 130)]))
    head(draw, fur)
    for x in (13, 51):
        draw.ellipse((x - 6, 22, x + 6, 50), fill=colour(rng, (90, 60, 40)), outline=(30, 30, 30))
    draw.ellipse((26, 38, 38, 46), fill=(30, 30, 30))


def rabbit(draw: Draw, rng: random.Random) -> None:
    fur = colour(rng, (225, 215, 205))
    for x in (25, 39):
        draw.ellipse((x - 5, 2, x + 5, 30), fill=fur, outline=(30, 30, 30))
    head(draw, fur, 15, 14)
    draw.rectangle((29, 44, 35, 50), fill=(255, 255, 255), outline=(30, 30, 30))


def cow(draw: Draw, rng: random.Random) -> None:
    head(draw, colour(rng, (235, 235, 235)), 16, 20)
    for _ in range(3):
        x, y = rng.randint(20, 42), rng.randint(20, 50)
        draw.ellipse((x - 5, y - 4, x + 5, y + 4), fill=(40, 40, 40))
    for x, tip in ((18, 12), (46, 52)):
        draw.line((x, 22, tip, 10), fill=(200, 190, 150), width=4)


def pig(draw: Draw, rng: random.Random) -> None:
    pink = colour(rng, (240, 150, 170))
    head(draw, pink, 20, 17)
    draw.ellipse((23, 35, 41, 47), fill=colour(rng, (220, 110, 140)), outline=(30, 30, 30))
    for x in (28, 36):
        draw.ellipse((x - 2, 39, x + 2, 43), fill=(60, 20, 30))


def hen(draw: Draw, rng: random.Random) -> None:
    draw.ellipse((14, 26, 54, 58), fill=colour(rng, (200, 120, 60)), outline=(30, 30, 30))
    draw.ellipse((10, 12, 30, 34), fill=colour(rng, (200, 120, 60)), outline=(30, 30, 30))
    draw.polygon([(10, 22), (2, 25), (10, 28)], fill=(240, 190, 40))
    draw.polygon([(14, 14), (18, 4), (22, 12), (26, 5), (27, 15)], fill=(210, 30, 30))


def bee(draw: Draw, rng: random.Random) -> None:
    for x in (22, 42):
        draw.ellipse((x - 9, 8, x + 9, 30), fill=(210, 230, 250), outline=(90, 90, 90))
    draw.ellipse((10, 24, 54, 48), fill=colour(rng, (245, 200, 40)), outline=(30, 30, 30))
    for x in (22, 31, 40):
        draw.line((x, 25, x, 47), fill=(30, 30, 30), width=4)


def snail(draw: Draw, rng: random.Random) -> None:
    draw.rounded_rectangle((6, 46, 58, 56), 5, fill=colour(rng, (200, 180, 120)), outline=(30, 30, 30))
    for size in (18, 12, 6):
        draw.ellipse(
            (38 - size, 32 - size, 38 + size, 32 + size),
            fill=colour(rng, (150, 90, 60)),
            outline=(30, 30, 30),
        )
    for x in (8, 14):
        draw.line((x, 48, x - 2, 34), fill=(60, 50, 40), width=2)


def butterfly(draw: Draw, rng: random.Random) -> None:
    wing = colour(rng, rng.choice([(220, 80, 60), (80, 120, 220), (180, 90, 200)]))
    for x in (17, 47):
        draw.ellipse((x - 14, 10, x + 14, 36), fill=wing, outline=(30, 30, 30))
        draw.ellipse((x - 10, 34, x + 10, 56), fill=wing, outline=(30, 30, 30))
    draw.ellipse((29, 12, 35, 56), fill=(40, 30, 30))


TASKS: dict[str, list[Animal]] = {
    "pets": [cat, dog, rabbit],
    "farm": [cow, pig, hen],
    "garden": [bee, snail, butterfly],
}


def picture(animal: Animal, rng: random.Random) -> Image.Image:
    """One animal, somewhere on a background, a little turned and blurred."""
    background = colour(rng, rng.choice([(120, 180, 120), (150, 190, 230), (210, 200, 170)]))
    layer = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
    animal(ImageDraw.Draw(layer), rng)
    scale = rng.uniform(0.75, 1.0)
    layer = layer.rotate(rng.uniform(-12, 12)).resize((int(SIDE * scale),) * 2)
    image = Image.new("RGB", (SIDE, SIDE), background)
    place = rng.randint(0, SIDE - layer.width), rng.randint(0, SIDE - layer.height)
    image.paste(layer, place, layer)
    return image.filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 0.8)))


def write(folder: Path, animals: list[Animal], count: int, rng: random.Random) -> None:
    for animal in animals:
        (folder / animal.__name__).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            picture(animal, rng).save(folder / animal.__name__ / f"{animal.__name__}{i:03}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=60, help="pictures of each animal")
    options = parser.parse_args()
    for name, animals in TASKS.items():
        write(options.folder / name, animals, options.count, random.Random(f"{name} train"))
    write(options.folder / "farm-test", TASKS["farm"], max(options.count // 3, 2), random.Random("farm test"))
    print(f"{options.folder}: {', '.join(TASKS)}, farm-test")


if __name__ == "__main__":
    main()
