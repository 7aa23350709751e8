"""A voice of a checkpoint, as an opened vocoder needs it.

voice = open_voice(checkpoint, "af_heart:0.7,am_adam:0.3", opened.vocoder.predictor)
"""

from kokoro_ane.core import (
    DECODER,
    STATISTICS,
    STREAMED,
    Checkpoint,
    InputError,
    Manifest,
    Voice,
    described,
    require_installed,
    voice_sha256,
)
from kokoro_ane.vocoder import find_statistics, require_predictor


def open_voice(checkpoint: Checkpoint, name: str, predictor: str) -> Voice:
    """A voice or blend by name, with its statistics where the vocoder predicts them by this
    `predictor` (its hash; "" where it measures). What nobody has settled yet is settled now, which
    needs PyTorch.

    Raises InputError: an unknown voice, a damaged file of statistics, a vocoder that was built with
    another predictor than the checkpoint has now.
    """
    pack = checkpoint.library.blend(name)
    if not predictor:
        return Voice(pack)
    # Statistics go with the predictor they were settled for; with another they would be wrong.
    ours = require_predictor(checkpoint)
    if ours.sha256 != predictor:
        raise InputError(
            f"the vocoder was built with the predictor {predictor[:12]}, {checkpoint.name} now has"
            f" {ours.sha256[:12]}: build it again"
        )
    found = find_statistics(checkpoint, ours, voice_sha256(pack))
    if found is None:
        # the voices that are bundled as settled need nothing but NumPy
        require_installed(f"voice {name}, which has to be settled first,", "build", ("torch",))
        from kokoro_ane.speech import settle

        found = settle(checkpoint, {name: pack})[name]
    return Voice(pack, found)


def is_settled(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a voice or blend has its statistics already."""
    voice = voice_sha256(checkpoint.library.blend(name))
    return find_statistics(checkpoint, require_predictor(checkpoint), voice) is not None


def read_predictor(manifest: Manifest) -> str:
    """The hash of the predictor in a vocoder that a manifest describes; "" where it has none."""
    if manifest.layout not in STREAMED:
        return ""
    with described(manifest.path):
        return str(manifest.inputs[DECODER][STATISTICS]["predictor_sha256"])
