import io
import zlib

import numpy as np
import pytest
from data_formats import encoded, samples
from PIL import Image

from nispa.data.readers import images
from nispa.data.readers.images import decode, decode_all
from nispa.errors import NispaError

COLOUR = samples(3, 1, (3, 6, 9))[0]
GREY = samples(3, 1, (1, 6, 9))[0]


def save(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "BMP"])
def test_lossless_formats(kind):
    assert np.array_equal(decode(encoded(COLOUR[0], kind), "x"), COLOUR[0])


def test_jpeg_and_gif_have_the_right_shape():
    assert decode(encoded(COLOUR[0], "JPEG"), "x").shape == (3, 6, 9)
    assert decode(encoded(COLOUR[0], "GIF"), "x").shape == (3, 6, 9)


def test_channels_and_size():
    assert np.array_equal(decode(encoded(GREY[0]), "x"), GREY[0])
    assert np.array_equal(decode(encoded(GREY[0]), "x", channels=3), np.repeat(GREY[0], 3, 0))
    assert decode(encoded(COLOUR[0]), "x", channels=1).shape == (1, 6, 9)
    assert decode(encoded(COLOUR[0]), "x", size=(4, 5)).shape == (3, 4, 5)


def test_exif_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    turned = save(Image.fromarray(COLOUR[0].transpose(1, 2, 0)), exif=exif)
    assert np.array_equal(decode(turned, "x"), np.rot90(COLOUR[0], -1, (1, 2)))


def test_transparent_is_white_and_sixteen_bits_are_scaled():
    clear = Image.new("RGBA", (3, 2), (255, 0, 0, 0))
    assert (decode(save(clear), "x") == 255).all()
    deep = Image.fromarray(np.full((2, 3), 0x1280, np.uint16))
    assert (decode(save(deep), "x", channels=1) == 0x12).all()


def test_bombs_are_refused_before_they_unpack():
    for side in (9_000, 60_000):
        data = bytearray(encoded(GREY[0]))
        data[16:24] = side.to_bytes(4, "big") * 2
        data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
        with pytest.raises(NispaError, match=f"huge: {side} x {side} pixels|huge: not .* bomb"):
            decode(bytes(data), "huge")


def test_text_bomb_in_a_png():
    data = encoded(GREY[0])
    text = b"zTXt" + b"key\0\0" + zlib.compress(bytes(80 << 20))
    chunk = (len(text) - 4).to_bytes(4, "big") + text + zlib.crc32(text).to_bytes(4, "big")
    with pytest.raises(NispaError, match="bomb: not a readable image"):
        decode(data[:33] + chunk + data[33:], "bomb")


@pytest.mark.parametrize("data", [b"", b"no image", encoded(COLOUR[0])[:60], b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_damaged_and_foreign(data):
    with pytest.raises(NispaError, match="row 7: not a readable image"):
        decode(data, "row 7")


def test_images_that_differ_say_what_to_do():
    with pytest.raises(NispaError, match=r"b: 6 x 9 pixels in 3 channels, but a .* give channels"):
        decode_all([encoded(GREY[0]), encoded(COLOUR[0])], ["a", "b"])
    with pytest.raises(NispaError, match=r"b: 6 x 5 pixels in 1 channel, but a .* give size"):
        decode_all([encoded(GREY[0]), encoded(GREY[0][:, :, :5])], ["a", "b"])


def test_threads_keep_the_order(monkeypatch):
    monkeypatch.setattr(images, "THREADS_FROM", 0)
    found = decode_all([encoded(x) for x in COLOUR] * 9, [str(i) for i in range(27)])
    assert np.array_equal(found, np.concatenate([COLOUR] * 9))
