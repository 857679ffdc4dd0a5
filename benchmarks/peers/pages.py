"""Pages of text to judge a text detector on, drawn alike for everyone by a seed.

    python benchmarks/peers/pages.py FOLDER --pages 60 --seed 1

Each is 640 x 640: a tinted ground, a title, one or two columns of words of random letters in one of several sizes, some lines in
boxes of another colour, some pages without text, and a camera's noise. Written as page-000.png and so on.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE = 640
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def words(dice, width, font):
    """A line of words at most `width` pixels wide."""
    line = ""
    while True:
        word = "".join(dice.choice(list(LETTERS), dice.integers(2, 10)))
        longer = f"{line} {word}".strip()
        if font.getlength(longer) > width:
            return line
        line = longer


def colours(dice):
    """Ground and ink that can be told apart."""
    light, dark = dice.integers(170, 256, 3), dice.integers(0, 90, 3)
    pair = (light, dark) if dice.random() < 0.8 else (dark, light)
    return tuple(tuple(int(value) for value in colour) for colour in pair)


def page(dice):
    """One page as an image."""
    ground, ink = colours(dice)
    image = Image.new("RGB", (SIDE, SIDE), ground)
    draw = ImageDraw.Draw(image)
    if dice.random() < 0.95:
        title, text = (ImageFont.load_default(int(dice.integers(*sizes))) for sizes in ((30, 52), (14, 27)))
        draw.text((40, 30), words(dice, SIDE - 80, title), ink, title)
        columns, step = int(dice.integers(1, 3)), 0
        width = (SIDE - 40 * (columns + 1)) // columns
        for column in range(columns):
            left, top = 40 + column * (width + 40), 110 + int(dice.integers(0, 60))
            while top < SIDE - 60:
                step = text.size * dice.uniform(1.5, 2.6)
                line = words(dice, width * dice.uniform(0.4, 1.0), text)
                if line and dice.random() < 0.85:
                    colour = ink
                    if dice.random() < 0.1:
                        under, colour = colours(dice)
                        draw.rectangle((left - 6, top - 4, left + text.getlength(line) + 6, top + text.size * 1.3), under)
                    draw.text((left, top), line, colour, text)
                top += step
    pixels = np.asarray(image, np.float32)
    pixels = pixels * np.linspace(dice.uniform(0.75, 1), 1, SIDE, dtype=np.float32)[:, None, None]  # a shadow
    pixels += dice.normal(0, dice.uniform(0, 6), pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    dice = np.random.default_rng(options.seed)
    for i in range(options.pages):
        page(dice).save(folder / f"page-{i:03}.png")


if __name__ == "__main__":
    main()
