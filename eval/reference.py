"""The reference: the checkpoint's own speech, and the fp32 renders that every level is compared
with.

    reference = Reference(checkpoint, seed=0)
    renders = reference.get_renders(clip)  # the sentence, three other seeds, a held vowel

The features (text encoder, style row, F0, energy and durations) are the checkpoint's own and
identical for all renders. Only the harmonic source's noise differs in the other seeds, which are
rendered where nothing is stored of them (eval/natural.py). With a folder, the reference's renders
are written there, and a further level costs only its own execution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from kokoro_ane.core import (
    BOTH,
    JUDGED,
    PROSODY_PER_FRAME,
    SECOND,
    TUNING,
    VOICES,
    Checkpoint,
    InputError,
    Voice,
    read_npz,
    staged,
)
from kokoro_ane.encoder import EncoderBackend, TextEncoder, load_torch_encoder
from kokoro_ane.eval.metrics.allowance import EVERY_CEPSTRUM, Allowance
from kokoro_ane.eval.metrics.framing import ORDER
from kokoro_ane.eval.metrics.trial import TONE_PITCHES_HZ, Baseline, Heard, Tone, Trial
from kokoro_ane.eval.natural import (
    HEARING,
    Item,
    Variations,
    compute_sound_probe,
    decode_figures,
    is_of_every_seed,
)
from kokoro_ane.eval.subjects import VOCODER
from kokoro_ane.runtimes import open_voice
from kokoro_ane.speech import (
    Clip,
    Utterance,
    list_spoken_lines,
    load_own_speech,
    load_text_encoder,
    make_vocoder_inputs,
    require_disjoint,
)
from kokoro_ane.vocoder import Vocoder, VocoderInputs, draw_noise, render_reference

if TYPE_CHECKING:
    from kokoro_ane.vocoder import EagerVocoder

HELD_FRAMES = 48  # 1.2 s, of which 0.8 s are measured
OTHER_SEEDS = 3
# whatever makes sound [600 F] of features: a package, or a model with a known error
Render = Callable[[VocoderInputs], np.ndarray]
SomeClip = TypeVar("SomeClip", bound=Clip)


@dataclass(eq=False)
class Reference:
    """The fp32 model of a checkpoint: inputs of a clip and of its held vowel, and their renders.

    seed: of the noise. folder: where renders are written. variations: what is stored of the natural
    variation.
    """

    checkpoint: Checkpoint
    seed: int
    folder: Path | None = None
    variations: Variations = field(default_factory=Variations)
    _renders: "dict[str, ReferenceRenders]" = field(default_factory=dict, init=False)  # by clip
    # those that were opened, by name and predictor
    _voices: "dict[tuple[str, str], Voice]" = field(default_factory=dict, init=False)
    # the clip that was encoded last
    _last: tuple[Utterance, VocoderInputs] | None = field(default=None, init=False)

    @cached_property
    def vocoder(self) -> Vocoder:
        """The checkpoint's, in float32."""
        return Vocoder.from_checkpoint(self.checkpoint)

    @cached_property
    def _text_encoder(self) -> TextEncoder:
        return load_text_encoder(self.checkpoint)

    @cached_property
    def _eager(self) -> "EagerVocoder":
        """The same network in three fifths of the time, 100 dB from it, which renders
        everything here: no compressed level is nearer than 50 dB.
        """
        from kokoro_ane.vocoder import EagerVocoder

        return EagerVocoder(self.vocoder)

    @cached_property
    def encoder(self) -> EncoderBackend:
        """The checkpoint's, in float32."""
        return load_torch_encoder(self.checkpoint)

    def compute_inputs(self, utterance: Utterance, other_seed: int = 0) -> VocoderInputs:
        """Return the features of a clip, with the noise of `seed + other_seed`."""
        inputs = self._encode_features(utterance)
        return self.with_noise(inputs, other_seed) if other_seed else inputs

    def with_noise(self, inputs: VocoderInputs, other_seed: int) -> VocoderInputs:
        """Return the same features, with the noise of `seed + other_seed`."""
        # The harmonics stay as they are: only the noise of the source is drawn anew.
        noise = draw_noise(inputs.frames, self.seed + other_seed)
        spectrum = self.vocoder.generator.m_source.compute_spectrum(inputs.f0_hz, noise)
        return replace(inputs, spectrum=spectrum)

    @torch.no_grad()
    def compute_vowel_inputs(
        self, utterance: Utterance, other_seed: int = 0
    ) -> tuple[VocoderInputs, float]:
        """Return the features of a clip's held vowel, for THD+N, and its F0 in Hz: the loudest
        voiced column of the clip, drawn out at the nearest pitch that has whole periods in the
        measured window.
        """
        # Of 80 columns a second, the one at which the voice is clearest: its text features, pitch
        # and energy are held for the whole of the vowel.
        loudest = int(np.argmax(np.where(utterance.f0_hz > 0, utterance.energy, -np.inf)))
        # THD+N wants whole periods in its window, and only these pitches have them.
        pitch_hz = min(TONE_PITCHES_HZ, key=lambda hz: abs(hz - float(utterance.f0_hz[loudest])))
        f0_hz = torch.full((1, PROSODY_PER_FRAME * HELD_FRAMES), pitch_hz)
        energy = torch.full_like(f0_hz, float(utterance.energy[loudest]))
        inputs = self._encode_features(utterance)
        # [1, hidden, F]
        asr = inputs.asr[..., loudest // PROSODY_PER_FRAME, None].repeat(1, 1, HELD_FRAMES)
        noise = draw_noise(HELD_FRAMES, self.seed + other_seed)
        spectrum = self.vocoder.generator.m_source.compute_spectrum(f0_hz, noise)
        return VocoderInputs(asr, f0_hz, energy, inputs.style, spectrum), pitch_hz

    def with_statistics(
        self, inputs: VocoderInputs, clip: Utterance, predictor: str
    ) -> VocoderInputs:
        """Return the inputs with what the clip's voice adds to the statistics that a vocoder
        predicts by `predictor` (its hash); as they are where it measures them.
        """
        if not predictor:
            return inputs
        # each clip asks twice, and opening a voice reads the predictor and a file of vectors
        key = clip.voice, predictor
        if key not in self._voices:
            self._voices[key] = open_voice(self.checkpoint, *key)
        statistics = self._voices[key].statistics_for(len(clip.phonemes))
        return replace(inputs, statistics=torch.from_numpy(statistics)[None])  # [1, 2R]

    def render_clock(self, inputs: VocoderInputs) -> np.ndarray:
        """The fp32 render of features that are not the reference's own [600 F] float64."""
        return render_reference(self._eager, inputs).astype(np.float64)

    def _encode_features(self, utterance: Utterance) -> VocoderInputs:
        """Features of a clip with the noise of `seed`: encoded once for all of its seeds and its
        vowel.
        """
        # By identity: a clip's seeds and its vowel are asked for one after the other.
        if self._last is None or self._last[0] is not utterance:
            inputs = make_vocoder_inputs(
                self.checkpoint, self.vocoder, self._text_encoder, utterance, self.seed
            )
            self._last = utterance, inputs
        return self._last[1]

    def get_renders(self, utterance: Utterance) -> "ReferenceRenders":
        """The renders of one clip, from memory, from the folder, or made."""
        if utterance.id not in self._renders:
            signals = self._load_signals(utterance)
            # Metrics compute in float64, whatever the file holds.
            reference, vowel = (signals[name].astype(np.float64) for name in ("reference", "vowel"))
            pitch_hz = float(signals["pitch_hz"])
            self._renders[utterance.id] = ReferenceRenders(
                self, utterance, reference, vowel, pitch_hz
            )
        return self._renders[utterance.id]

    def forget(self, utterance: Utterance) -> None:
        """Take the renders of a clip out of memory."""
        self._renders.pop(utterance.id, None)

    def _load_signals(self, utterance: Utterance) -> dict[str, np.ndarray]:
        """The sentence [600 F] float32, the vowel [n] and its pitch in Hz, read or rendered."""
        path = self.folder / f"{utterance.id}.npz" if self.folder else None
        if path and path.is_file():
            return read_npz(path, "; delete it and it is rendered again")
        vowel, pitch_hz = self.compute_vowel_inputs(utterance)
        signals = {
            "reference": render_reference(self._eager, self.compute_inputs(utterance)),
            "vowel": render_reference(self._eager, vowel),
            "pitch_hz": np.asarray(pitch_hz),
        }
        if path:
            # By rename: a file that is there is whole.
            with staged(path) as aside, aside.open("wb") as stream:
                np.savez(stream, allow_pickle=False, **signals)
        return signals


@dataclass(frozen=True, eq=False)
class ReferenceRenders:
    """One clip by the fp32 model: the sentence [600 F] float64, a held vowel of its voice [n] and
    the vowel's pitch; what is stored of other seeds, or else their renders.
    """

    model: Reference
    clip: Utterance
    reference: np.ndarray
    vowel: np.ndarray
    pitch_hz: float
    _seeds: dict[int, np.ndarray] = field(default_factory=dict)  # that were rendered

    @cached_property
    def probe(self) -> np.ndarray:
        """What tells whether a stored item is of this reference."""
        return compute_sound_probe(self.reference, self.vowel)

    @property
    def place(self) -> int:
        """Which of the other seeds speaks for all where one tells enough; it hangs on the clip."""
        return self.clip.frames % OTHER_SEEDS

    def get_seed(self, place: int) -> np.ndarray:
        """The sentence by one of the other seeds."""
        if place not in self._seeds:
            inputs = self.model.compute_inputs(self.clip, place + 1)
            self._seeds[place] = self.model.render_clock(inputs)
        return self._seeds[place]

    def find_variation(self, thorough: bool = False) -> tuple[Item, str] | None:
        """What is stored of other seeds, and from where; None where it is of other frames (at the
        edge of silence another processor's last bits decide which frames count), or where it is
        `thorough` and only one seed was rendered for it.
        """
        counted = self.sentence.active.nonzero()[0][::EVERY_CEPSTRUM]

        def can_serve(item: Item) -> bool:
            of_these_frames = Allowance.read(item).cepstrum.size == ORDER * len(counted)
            return of_these_frames and (not thorough or is_of_every_seed(decode_figures(item)))

        return self.model.variations.find(VOCODER, self.clip.id, self.probe, can_serve)

    @cached_property
    def sentence(self) -> Baseline:
        """The sentence, without other seeds."""
        stored = self.model.variations.find(HEARING, self.clip.id, self.probe)
        heard = Heard.read(stored[0]) if stored else None
        # No other seeds here: they are rendered only where nothing is stored of them.
        return Baseline(self.reference, (), self.clip.text, heard)

    @property
    def baseline(self) -> Baseline:
        """The sentence, with what other seeds allow: those that are stored, else those that were
        rendered, at least one.
        """
        return self.seeded if self.is_seeded else self._first

    @cached_property
    def seeded(self) -> Baseline:
        """The sentence, with all of its other seeds."""
        return self._add_seeds(*range(OTHER_SEEDS))

    @property
    def is_seeded(self) -> bool:
        """Whether all other seeds were rendered."""
        return len(self._seeds) == OTHER_SEEDS

    @property
    def is_thorough(self) -> bool:
        """Whether all other seeds speak in `baseline`."""
        return self.is_seeded or self.find_variation(thorough=True) is not None

    @cached_property
    def _first(self) -> Baseline:
        # What the seeds allow is enough: where it is stored, no seed is rendered.
        stored = self.find_variation()
        if stored is None:
            return self._add_seeds(self.place)
        return replace(self.sentence, allowed=Allowance.read(stored[0]))

    def _add_seeds(self, *places: int) -> Baseline:
        # What is heard in the reference is asked once, for it alone and beside its seeds.
        seeds = tuple(self.get_seed(place) for place in places)
        return replace(self.sentence, other_seeds=seeds, cached=self.sentence.heard)

    def make_trial(
        self,
        test: np.ndarray,
        vowel: np.ndarray,
        clock: np.ndarray | None = None,
        sentence: Baseline | None = None,
    ) -> Trial:
        """Compare a subject's sentence and vowel with the fp32 model's. `clock`: the fp32 model on
        the subject's own features; `sentence`: where it is not the baseline.
        """
        tone = Tone(self.pitch_hz, self.vowel, vowel)
        sentence = sentence or self.baseline
        return Trial(self.reference, test, (), tone, sentence.text, sentence, clock)

    def make_seed_trial(self, place: int, thorough: bool = False) -> Trial:
        """Return one of the other seeds as if it were judged, against the two that are left where
        all are rendered, as `thorough` does.
        """
        vowel = self.model.compute_vowel_inputs(self.clip, place + 1)[0]
        sentence = self.sentence
        if thorough or self.is_seeded:
            sentence = self.seeded.without(place)
        seed = self.get_seed(place)
        return self.make_trial(seed, self.model.render_clock(vowel), sentence=sentence)


def list_judged_clips(
    checkpoint: Checkpoint, name: str = JUDGED, count: int | None = None
) -> list[Utterance]:
    """The first `count` clips of the set, or of all that judge. InputError when a text is tuned
    on, or when there are fewer.
    """
    chosen = [
        clip
        for part in ((JUDGED, SECOND, VOICES) if name == BOTH else (name,))
        for clip in load_own_speech(checkpoint, part)
    ]
    # A text that a level was tuned on would flatter it.
    require_disjoint(list_spoken_lines(checkpoint, TUNING), chosen)
    return take_clips(chosen, count)


def take_clips(clips: Sequence[SomeClip], count: int | None) -> list[SomeClip]:
    """The first `count` of the clips, by default all. Raises InputError where there are fewer."""
    if count is not None and not 1 <= count <= len(clips):
        raise InputError(f"--clips {count}: there are {len(clips)} clips, give 1 to {len(clips)}")
    return list(clips[:count])
