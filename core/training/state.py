"""What a training loop leaves on disk: a state to resume from, a log, and parts put into a checkpoint folder.

write_state(path, {"step": 7, "seed": 0, "log": log})
content = read_state(path, seed=0)
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from core.errors import InputError
from core.staging import staged


def write_state(state: Path, content: dict[str, Any]) -> None:
    """All a resumed run needs, renamed into place."""
    with staged(state) as aside:
        torch.save(content, aside)


def read_state(state: Path, seed: int, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What `write_state` wrote. InputError: no such file, or a run of another seed."""
    try:
        content = torch.load(state, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise InputError(f"--resume {state}: no such file") from None
    if content["seed"] != seed:
        raise InputError(f"--resume {state}: it was trained with --seed {content['seed']}, not {seed}")
    return content


@torch.no_grad()
def put_back(module: nn.Module, kept: Mapping[str, Tensor]) -> None:
    """Parameters by name, as `named_parameters` gave them."""
    for key, parameter in module.named_parameters():
        parameter.copy_(kept[key])


def recent_loss(log: list[dict[str, Any]]) -> float | None:
    """Mean of the last ten logged losses."""
    recent = [entry["loss"] for entry in log[-10:]]
    return round(sum(recent) / len(recent), 4) if recent else None


def write_log(path: Path, log: list[dict[str, Any]]) -> None:
    """One JSON object a line."""
    with staged(path) as aside:
        aside.write_text("".join(json.dumps(entry) + "\n" for entry in log), encoding="utf-8")
