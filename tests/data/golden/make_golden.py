"""Writes the small files beside it: pictures in every form the decoders know, and what Pillow and NumPy make of them.

Run by hand when a case is added: python make_golden.py (Pillow, NumPy). The results are committed.
"""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
WIDTH, HEIGHT = 37, 23


def picture() -> np.ndarray:
    """Smooth in parts, sharp in others, so that chroma upsampling and ringing show."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    red = 127 + 120 * np.sin(x / 3.1) * np.cos(y / 4.7)
    green = 255 * ((x // 5 + y // 4) % 2)
    blue = (x * 7 + y * 11) % 256
    return np.clip(np.stack([red, green, blue], axis=-1), 0, 255).astype(np.uint8)


def png16(name: str, values: np.ndarray, color_type: int) -> None:
    """Pillow writes no 16-bit colour, so this does."""
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def write_pictures() -> list[str]:
    rgb = Image.fromarray(picture())
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turn by 90 degrees; Pillow's open does not
    rgb.save(HERE / "420.jpg", quality=85, subsampling="4:2:0")
    rgb.save(HERE / "422.jpg", quality=85, subsampling="4:2:2")
    rgb.save(HERE / "444.jpg", quality=95, subsampling="4:4:4")
    rgb.save(HERE / "progressive.jpg", quality=70, progressive=True)
    rgb.save(HERE / "exif.jpg", quality=85, exif=exif)
    rgb.convert("L").save(HERE / "grey.jpg", quality=85)
    rgb.convert("CMYK").save(HERE / "cmyk.jpg", quality=90)
    rgb.save(HERE / "rgb.png")
    alpha = Image.fromarray(np.tile(np.arange(WIDTH, dtype=np.uint8) * 6, (HEIGHT, 1)))
    rgba = rgb.copy()
    rgba.putalpha(alpha)
    rgba.save(HERE / "rgba.png")
    grey_alpha = Image.merge("LA", (rgb.convert("L"), alpha))
    grey_alpha.save(HERE / "grey_alpha.png")
    rgb.convert("P", palette=Image.Palette.ADAPTIVE, colors=200).save(HERE / "palette.png")
    rgb.convert("P", palette=Image.Palette.ADAPTIVE, colors=4).save(HERE / "palette_2bit.png", bits=2)
    rgb.convert("P", palette=Image.Palette.ADAPTIVE, colors=16).save(HERE / "palette_clear.png", transparency=3)
    rgb.convert("L").save(HERE / "grey.png")
    rgb.convert("L").save(HERE / "grey_clear.png", transparency=128)
    rgb.convert("1").save(HERE / "bilevel.png")
    wide = picture().astype(np.uint16)
    png16("grey16.png", wide[..., 0] * 3, 0)
    png16("rgb16.png", wide * 257 - (wide > 9) * 77, 2)
    png16("rgba16.png", np.concatenate([wide * 251, wide[..., :1] * 200], axis=-1), 6)
    return sorted(path.name for path in HERE.iterdir() if path.suffix in (".jpg", ".png"))


def write_expected(names: list[str]) -> None:
    expected = {name: np.asarray(Image.open(HERE / name).convert("RGB")) for name in names}
    source = Image.open(HERE / "rgb.png").convert("RGB")
    for kind, filter_ in (("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC)):
        for width, height in ((37, 23), (37, 9), (11, 23), (16, 10), (1, 1), (64, 40), (90, 23), (3, 61), (73, 7), (36, 20)):
            expected[f"resize_{kind}_{width}_{height}"] = np.asarray(source.resize((width, height), filter_))
    np.savez_compressed(HERE / "expected.npz", **expected)


def write_arrays() -> None:
    """The same numbers in every form .npy has, and as a .npz of stored entries."""
    values = np.arange(24).reshape(2, 3, 4)
    forms = {
        "plain": values.astype("<f4"), "fortran": np.asfortranarray(values.astype("<f4")), "big": values.astype(">f4"),
        "big_fortran": np.asfortranarray(values.astype(">i2")), "half": values.astype("<f2"), "double": values.astype("<f8"),
        "int8": values.astype("i1"), "uint8": values.astype("u1"), "int32": values.astype("<i4"), "int64": values.astype("<i8"),
        "uint16": values.astype(">u2"), "bool": values % 2 == 1, "scalar": np.float32(5), "empty": np.zeros((0, 3), "<f4"),
        "sliced": values.astype("<f4")[:, ::2],
    }
    np.savez(HERE / "arrays.npz", **forms)
    for version in ((2, 0), (3, 0)):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, values.astype("<f4"), version=version)
        (HERE / f"version{version[0]}.npy").write_bytes(buffer.getvalue())


if __name__ == "__main__":
    write_expected(write_pictures())
    write_arrays()
