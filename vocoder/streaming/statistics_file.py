"""Where the predicted statistics of a checkpoint are kept, and the command that fits them.

    path = statistics_file(checkpoint)  # None: it has none, and no streaming layout

Nothing here needs PyTorch: a layout is chosen where only ONNX Runtime is installed, too.
"""

from pathlib import Path

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.kokoro_int8.cache import cache_root

DATA = Path(__file__).resolve().parents[1] / "data"


def predictor_path(checkpoint: Checkpoint) -> Path:
    """Where a fitted predictor of these weights is kept, in the user's cache."""
    return cache_root() / "statistics" / f"{checkpoint.sha256[:16]}.npz"


def statistics_file(checkpoint: Checkpoint) -> Path | None:
    """The predictor that the user fitted, else the one in the checkpoint's folder, else the bundled
    one; None where these weights have none.
    """
    name = f"statistics-{checkpoint.sha256[:16]}.npz"
    # What the user fitted comes first.
    places = (predictor_path(checkpoint), checkpoint.folder / name, DATA / name)
    return next((path for path in places if path.is_file()), None)


def fit_command(checkpoint: Checkpoint) -> str:
    """What fits a predictor, in a checkout."""
    return f"python -m training.fit_statistics --checkpoint {checkpoint.source}"
