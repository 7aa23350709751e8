"""Settle a voice: speak a few sentences, and keep by how much the predicted statistics miss what is
measured in them. So the layout that predicts serves every voice, on any weights.

    settle(checkpoint, {"af_heart": pack})  # [2, 2R] float32 by name, found or settled

Most of an error is the same in every sentence of a voice and a length, and changes with the style,
whose row hangs on the length. A line through eight sentences of 80 to 380 phonemes leaves as much
in voices that the predictor never saw as it errs in those that it was fitted to, in other languages
and at other speeds too.

Weights that are moved a little move every voice in its own way: what they have in common leaves
four times as much, so each voice is settled on each weights. A bundled voice needs three sentences
there: what each measures is compared with what the same sentence measured on the bundled weights
(vocoder/streaming/anchors.py). The line through three differences lies twice as near to that
through eight sentences as a line through four sentences. Where the three disagree, the other five
are spoken too.
"""

from collections.abc import Mapping

import numpy as np
import torch

from kokoro_ane.core import Checkpoint, style_path, voice_sha256
from kokoro_ane.encoder import load_torch_encoder
from kokoro_ane.speech.corpus import SETTLING, Line, read_speech_lines
from kokoro_ane.speech.speech import load_text_encoder, make_vocoder_inputs, speak_line
from kokoro_ane.vocoder import (
    ANCHORED,
    Anchor,
    Residuals,
    StatisticsPredictor,
    Vocoder,
    find_anchor,
    find_statistics,
    follow_line,
    keep_statistics,
    make_streaming_modules,
    require_predictor,
)

FIRST_SEED = 2000  # of the sentences' noise, which nothing else draws
# How far three differences may lie from their line, in log variances: half of what the predictor
# errs by in a sentence (0.024), so that a line through them adds an eighth to it.
AGREEMENT = 0.012


def settle(checkpoint: Checkpoint, packs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What each voice adds to predicted statistics, [2, 2R] float32 by name (core.voices.Voice). A
    voice that nobody has settled is settled and kept, with a progress bar: in about 40 s of one
    core, or in 10 where it is a bundled voice on weights near the bundled ones. packs [510, 1,
    256]: by a name that tells the dialect.

    Raises InputError where the checkpoint has no predictor, and for a damaged file of vectors.
    """
    predictor = require_predictor(checkpoint)
    bench = None
    vectors = {}
    for name, pack in packs.items():
        voice = voice_sha256(pack)
        vector = find_statistics(checkpoint, predictor, voice)
        if vector is None:
            # The models are opened for the first voice that nobody has settled.
            bench = bench or Settling(checkpoint, predictor)
            line = bench.measure_line(name, pack, find_anchor(predictor, voice))
            vector = keep_statistics(checkpoint, predictor, voice, line)
        vectors[name] = vector
    return vectors


def fit_line(pack: np.ndarray, phonemes: list[int], residuals: np.ndarray) -> np.ndarray:
    """The line that is nearest to residuals [n, 2R] of utterances of these counts of phonemes:
    where it begins, and its change up to the style's end (core.voices.style_path), [2, 2R].
    """
    # Row n - 1 of a pack is for n phonemes.
    along = style_path(pack)[np.array(phonemes) - 1]
    inputs = np.stack([np.ones_like(along), along], axis=1)  # [n, 2]
    # [2, 2R]: the value where the line begins, then its change
    line: np.ndarray = np.linalg.lstsq(inputs, residuals, rcond=None)[0]
    return line


def move_line(
    pack: np.ndarray, phonemes: list[int], residuals: np.ndarray, anchor: Anchor
) -> np.ndarray | None:
    """The anchor's line moved to where its sentences' residuals [3, 2R] lie now, [2, 2R]. None
    where they did not move along one line: then the weights are others, or the sentences are.
    """
    along = style_path(pack)[np.array(phonemes) - 1]
    moves = residuals - anchor.compute_residuals(along)
    line = fit_line(pack, phonemes, moves)
    _, left = np.split(moves - follow_line(line, along), 2, axis=1)  # log variances
    # a line through three points leaves one of their three degrees of freedom
    freedom = len(phonemes) - np.linalg.matrix_rank(np.stack([np.ones_like(along), along]))
    spread = np.sqrt(np.square(left).sum() / left.shape[1] / freedom)
    return anchor.line + line if spread <= AGREEMENT else None


def list_anchored_lines() -> dict[int, Line]:
    """The lines that anchors are measured in, by their numbers among the settling sentences."""
    lines = read_speech_lines(SETTLING)
    return {number: lines[number] for number in ANCHORED}


class Settling:
    """The settling sentences by a checkpoint, in PyTorch."""

    def __init__(self, checkpoint: Checkpoint, predictor: StatisticsPredictor) -> None:
        self.checkpoint, self.predictor = checkpoint, predictor
        self.vocoder = Vocoder.from_checkpoint(checkpoint)
        self.encoder = load_torch_encoder(checkpoint)
        self.texts = load_text_encoder(checkpoint)
        self.residuals = Residuals(make_streaming_modules(self.vocoder, predictor))

    def measure_line(self, name: str, pack: np.ndarray, anchor: Anchor | None) -> np.ndarray:
        """What a voice adds, [2, 2R], by three sentences where these agree with its anchor."""
        unspoken = dict(enumerate(read_speech_lines(SETTLING)))
        phonemes, residuals = list[int](), np.zeros((0, len(self.predictor.bias)))
        if anchor:
            phonemes, residuals = self.measure_residuals(name, pack, list_anchored_lines())
            moved = move_line(pack, phonemes, residuals, anchor)
            if moved is not None:
                return moved
            # What was spoken for the anchor is not spoken again.
            unspoken = {number: line for number, line in unspoken.items() if number not in ANCHORED}
        more, beyond = self.measure_residuals(name, pack, unspoken)
        return fit_line(pack, phonemes + more, np.concatenate([residuals, beyond]))

    @torch.no_grad()
    def measure_residuals(
        self, name: str, pack: np.ndarray, lines: Mapping[int, Line]
    ) -> tuple[list[int], np.ndarray]:
        """The count of phonemes of each line, by its number among the settling sentences, and what
        is measured in it less what is predicted [n, 2R] float64.
        """
        from rich.console import Console
        from rich.progress import track

        console = Console(stderr=True)
        style = torch.from_numpy(pack)
        phonemes = list[int]()
        measured = []
        shown = track(
            lines.items(),
            f"settling {name}",
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        for number, line in shown:
            utterance = speak_line(
                self.encoder, self.checkpoint, line, name, f"{SETTLING}-{number:02d}", style
            )
            inputs = make_vocoder_inputs(
                self.checkpoint, self.vocoder, self.texts, utterance, FIRST_SEED + number, pack
            )
            phonemes.append(len(utterance.phonemes))
            # The predictor adds these to its product, so they come off like the product.
            measured.append(self.residuals(inputs) - self.predictor.usual)
        return phonemes, np.stack(measured)
