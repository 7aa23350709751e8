"""What the encoder does on the host: vocabulary, speed, alignment and its limits; voices of three
file kinds, rows, blends, bad ones.
"""

import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kokoro_ane.core.steps import run_steps
from kokoro_ane.core.voices import VoiceLibrary, parse_blend, read_pack, style_row
from kokoro_ane.encoder.encoder_steps import (
    STEPS,
    AlignmentLimits,
    Buckets,
    EncoderBackend,
    check_speed,
    encode_phonemes,
    round_durations,
)
from tests.commands import refused, table

VOCAB = {"a": 43, "b": 44, " ": 16, "ˈ": 156}
LIMITS = AlignmentLimits(token_frames=200, total_frames=1200)


class TestDurations:
    def test_ids_stand_between_boundaries(self):
        assert encode_phonemes("aˈb a", VOCAB) == (0, 43, 156, 44, 16, 43, 0)
        assert len(encode_phonemes("a" * 510, VOCAB)) == 512

    @table(
        "phonemes message",
        r"""
        "" | nothing to say
        "   " | nothing to say
        "ab☃a" | '☃' \(U\+2603\) at 2
        "1234567" | '1' \(U\+0031\) at 0.*and 2 more
    """,
    )
    def test_bad_phonemes_say_which_and_where(self, phonemes, message):
        refused(message, encode_phonemes, phonemes, VOCAB)
        refused("511 phonemes: at most 510", encode_phonemes, "a" * 511, VOCAB)

    @table("speed", "0.0\n-1.0\nNaN\nInfinity\n0.1\n9.0")
    def test_bad_speed(self, speed):
        refused(r"is outside 0\.25 to 4", check_speed, speed)

    @given(st.lists(st.floats(0, 190), min_size=1, max_size=6))
    def test_rounding_is_upstreams(self, raw):
        expected = torch.round(torch.tensor(raw)).clamp(min=1).long()
        assert np.array_equal(round_durations(np.array(raw, np.float32), LIMITS), expected)

    @table(
        "raw message",
        r"""
        [1.0, NaN] | duration of token 1 is nan
        [1.0, 2.0, 201.0] | token 2 lasts 201 frames \(5\.0 s\)
        [199.0, 199.0, 199.0, 199.0, 199.0, 199.0, 199.0] | lasts 1393 frames \(34\.8 s\), .* 1200
    """,
    )
    def test_limits_say_what_is_wrong(self, raw, message):
        refused(message, round_durations, np.array(raw), LIMITS)

    def test_gather_and_token_buckets(self):
        text, durations = torch.randn(1, 5, 1, 4), torch.tensor([2, 1, 3, 1])
        one_hot = torch.zeros(4, 7)
        one_hot[torch.repeat_interleave(torch.arange(4), durations), torch.arange(7)] = 1
        inputs = {"text": text.numpy(), "durations": durations.numpy(), "hidden": text.numpy()}
        steps = [step for step in STEPS if step.name in ("align", "asr")]
        context = SimpleNamespace(encoder=EncoderBackend(None, LIMITS))
        asr = run_steps(steps, context, inputs)["asr"]
        assert np.array_equal(asr, (text @ one_hot)[:, :, 0])
        buckets = Buckets((16, 64), (20,))
        assert [buckets.find_token_bucket(count) for count in (3, 16, 17, 64)] == [16, 16, 64, 64]
        refused("63 phonemes: the package takes at most 62", buckets.find_token_bucket, 65)


@pytest.fixture
def library(tmp_path):
    packs = {
        name: torch.randn(510, 1, 256, generator=torch.Generator().manual_seed(i))
        for i, name in enumerate(("pt", "bin", "npy"))
    }
    torch.save(packs["pt"], tmp_path / "af_heart.pt")
    (tmp_path / "am_adam.bin").write_bytes(packs["bin"].numpy().astype("<f4").tobytes())
    np.save(tmp_path / "bf_lily.npy", packs["npy"].numpy())
    (tmp_path / "README.md").write_text("not a voice")
    return VoiceLibrary(tmp_path)


def test_voices_of_three_kinds_their_rows_and_blends(library):
    assert library.names == ("af_heart", "am_adam", "bf_lily")
    for index, name in enumerate(library.names):
        expected = torch.randn(510, 1, 256, generator=torch.Generator().manual_seed(index))
        assert np.array_equal(library.pack(name), expected)
    pack = library.pack("af_heart")
    assert np.array_equal(style_row(pack, 1), pack[0])
    assert np.array_equal(style_row(pack, 510), pack[509])
    for phonemes in (0, 511):
        refused("a style for 1 to 510", style_row, pack, phonemes)
    a, b = library.pack("af_heart"), library.pack("am_adam")
    assert np.allclose(library.blend("af_heart:0.7,am_adam:0.3"), 0.7 * a + 0.3 * b)
    assert np.allclose(library.blend("af_heart:7, am_adam:3"), 0.7 * a + 0.3 * b)
    assert np.allclose(library.blend("af_heart,am_adam"), (a + b) / 2)
    # as Kokoro-FastAPI writes it
    assert np.allclose(library.blend("af_heart(7)+am_adam(3)"), 0.7 * a + 0.3 * b)
    assert np.allclose(library.blend("af_heart+am_adam"), (a + b) / 2)
    assert np.array_equal(library.blend("af_heart"), a)


@table(
    "text message",
    """
     | is not NAME or NAME:WEIGHT
    a:0.5, | is not NAME or NAME:WEIGHT
    :0.5 | is not NAME or NAME:WEIGHT
    a:x | 'a:x' is not NAME
    a:-1 | above 0
    a:nan | above 0
    a:inf | above 0
    a:0.5,b:0.2,a:0.3 | names 'a' twice
""",
)
def test_bad_blend(text, message):
    refused(message, parse_blend, text)


def test_unknown_voice_gives_near_matches_and_the_list(library):
    with refused(
        r"no voice 'af_hart'.*did you mean af_heart.*There are: af_heart, am_adam, bf_lily"
    ):
        library.blend("af_hart")
    with refused(r"no voice '\.\./af_heart'"):
        VoiceLibrary(library.folder).pack("../af_heart")


def npy(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("short.bin", b"\0" * 1000, "has 1000 bytes; raw float32"),
        ("torn.pt", b"PK\3\4 not a file", "cannot be read as a PyTorch file"),
        ("whole.npy", npy(np.zeros((510, 1, 256), np.int32)), "holds int32"),
        ("nan.npy", npy(np.full((510, 1, 256), np.nan, np.float32)), "NaN or infinity"),
        ("long.npy", npy(np.zeros((511, 1, 256), np.float32)), r"shape \[511, 1, 256\]"),
    ],
)
# tests/attacks/test_data.py has the hostile ones
def test_damaged_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    refused(message, read_pack, tmp_path / name)
