"""The seams: rates, sizes and the layout of every tensor that crosses from one stage to the next.

    from kokoro_ane.core.contract import DEFAULT_BUCKETS, FRAME_SAMPLES, PackedLayout

F = frames (40 per second, 600 samples at 24 kHz), S = 120 F + 1 spectrum columns.
"""

from dataclasses import dataclass

from kokoro_ane.core.errors import InputError, UtteranceTooLong

MAIN = "main"  # what the only function of a package is called
SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 600
FRAMES_PER_SECOND = SAMPLE_RATE_HZ // FRAME_SAMPLES
PROSODY_PER_FRAME = 2  # F0 and energy run at 80 per second
N_FFT, HOP_SAMPLES = 20, 5
SPECTRUM_CHANNELS = N_FFT + 2  # 11 magnitudes, 11 phases
COLUMNS_PER_FRAME = FRAME_SAMPLES // HOP_SAMPLES
# the spectrum's columns to one of the generator's first stage; that stage's columns a frame
COLUMNS_PER_STEP = 6
STEPS_PER_FRAME = 20
HARMONICS = 9  # fundamental and eight overtones

VOCODER_NAME = "KokoroVocoder"
TUNING, JUDGED, SECOND = "tuning", "judged", "second"  # sets of texts, core/data/speech
CORPUS = "corpus"  # a set of the user's own (speech/own_corpus.py)
# what judges, too, where the checkpoint holds its voices: those that no tuning saw, in their
# languages; and what is judged once, for evidence
VOICES, THIRD = "voices", "third"
BOTH = "both"  # all that judge, one after the other
# what a verdict says something of: figures alone; of a run on the device
CLAIMS = (NUMERIC, DEVICE) = ("numeric", "device")
PADDED = "padded"
STREAMING, STREAMING_POLYNOMIAL = "streaming", "streaming-poly"
# statistics predicted, samples window by window (vocoder/streaming)
STREAMED = (STREAMING, STREAMING_POLYNOMIAL)
LAYOUTS = (PADDED, *STREAMED)
# built and opened where no layout is named and it can be (quantize/locator.py default_layout); it
# has no name in a package's name
DEFAULT_LAYOUT = STREAMING
PADDED_TARGET = "iOS17"  # whose packages have one function
# of the vocoder's programs
FEATURES, STYLE, WAVEFORM = "features", "style", "waveform"
# what a voice adds to the statistics that the streaming layouts predict: [1, 2R, 1, 1], means, then
# log variances of the second stage's norms
STATISTICS = "statistics"
# functions of the streaming layout's package
DECODER, UTTERANCE, WINDOW = "decoder", "utterance", "window"
# what the generator's second stage reads
ENTERING = "entering"
# gains and shifts of its norms, with predicted statistics in them; the style's alone
AFFINE = "affine"
STYLE_AFFINE = "style_affine"


# frames: 0.5 s to 30 s
DEFAULT_BUCKETS = (20, 40, 60, 80, 104, 136, 180, 240, 320, 420, 560, 740, 980, 1200)
# of the padded layout, 13.5 s: the Neural Engine of M5 takes 65,536 columns, and 546 frames have
# 65,521 (mlprogram's rule axis-65536). A longer sentence is cut, or takes a streaming layout.
PADDED_BUCKETS = (20, 40, 60, 80, 104, 136, 180, 240, 320, 420, 540)
# of the streaming layouts, 20.4 s: the decoder's widest axis has 20 (B + 1) columns, and most
# engines take 16,384
LONGEST_BUCKET = 818
# one minute; above that the spectrum axis passes 288,000 columns and nobody has run it
MAX_BUCKET_FRAMES = 2400


def check_buckets(buckets: tuple[int, ...]) -> tuple[int, ...]:
    """Return `buckets` (frames, strictly rising) or raise InputError saying which entry is
    wrong.
    """
    if not buckets:
        raise InputError(
            "bucket list is empty: give at least one length in frames, for example --buckets"
            " 40,80,160"
        )
    # Rising, because bucket_for takes the first that is long enough.
    for before, after in zip(buckets, buckets[1:], strict=False):
        if after <= before:
            raise InputError(
                f"bucket list is not rising: {after} stands after {before}; sort it and name each"
                " length once"
            )
    if buckets[0] < 2 or buckets[-1] > MAX_BUCKET_FRAMES:
        raise InputError(
            f"bucket {buckets[0] if buckets[0] < 2 else buckets[-1]} is outside"
            f" 2..{MAX_BUCKET_FRAMES} frames"
        )
    return buckets


def bucket_for(frames: int, buckets: tuple[int, ...]) -> int:
    """The smallest bucket that holds `frames`. Raises UtteranceTooLong when none does, InputError
    where there are none.
    """
    if frames < 1:
        raise InputError(f"features hold {frames} frames: at least 1 is needed")
    for bucket in buckets:
        if frames <= bucket:
            return bucket
    raise UtteranceTooLong(
        f"features hold {frames} frames ({frames / FRAMES_PER_SECOND:.1f} s) but the largest bucket"
        f" is {buckets[-1]} ({buckets[-1] / FRAMES_PER_SECOND:.1f} s): split the text or build with"
        " a larger bucket"
    )


@dataclass(frozen=True)
class PackedLayout:
    """Rows of the vocoder's one flexible input `features` [1, channels, 1, bucket + 1].

    Every seam tensor is padded with zeros to a multiple of bucket + 1 columns and laid down row
    after row in memory, so packing is concatenation and unpacking is slices and reshapes; no
    transpose, no gather. Order: asr, f0, energy, mask, spectrum.
    """

    hidden_dim: int

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """Rows of asr, f0, energy, mask and spectrum."""
        return (
            self.hidden_dim,
            PROSODY_PER_FRAME,
            PROSODY_PER_FRAME,
            1,
            SPECTRUM_CHANNELS * COLUMNS_PER_FRAME,
        )

    @property
    def channels(self) -> int:
        """Rows in all."""
        return sum(self.sizes)


G2P_NAME = "G2P"

ENCODER_NAME = "KokoroEncoder"
DURATION, PROSODY = "duration", "prosody"  # functions of the encoder package
# one style per phoneme count; columns 0:128 for the decoder, 128:256 for the prosody
VOICE_SHAPE = (510, 1, 256)
BOUNDARY_ID = 0  # upstream's token before and after every utterance
PADDING_ID = -1  # of input_ids; the only flexible input of `duration` carries its own mask
TOKEN_BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # boundary tokens included
INPUT_IDS, SPEED, FRAMES = "input_ids", "speed", "frames"
DURATIONS, HIDDEN, TEXT, F0_HZ, ENERGY = "durations", "hidden", "text", "f0_hz", "energy"
# beyond these a voice is neither understood nor what upstream was trained on
MIN_SPEED, MAX_SPEED = 0.25, 4.0
