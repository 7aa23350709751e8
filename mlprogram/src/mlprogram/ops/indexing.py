"""Gather and scatter families, sorting, and tensors made of indices.

    INDEXING["gather"].run(x, indices, axis=1)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/scatter_gather.py, tensor_operation.py and their
later versions. Negative indices count from the end, unless validate_indices is set: then they are
errors, as the definitions say. An index outside its axis is an error. Scatters from iOS 17 on know
no negative indices; unless validate_indices is set, what is outside is undefined but safe there:
nothing is written, and warns.
"""

from __future__ import annotations

import warnings
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import kernel

_FEW = 8  # indices


def gather(
    x: Tensor, indices: Tensor, axis: int = 0, batch_dims: int = 0, validate_indices: bool = False
) -> Tensor:
    """x[..., indices, ...] along `axis`; the first `batch_dims` axes of x and indices go
    together.
    """
    axis %= x.dim()
    if indices.numel() == 1 and not batch_dims:  # what a loop does at every step: a view
        # [..., n, ...] -> [..., 1, ...] of the same memory
        row = x.narrow(axis, _find_place(indices, x.shape[axis], validate_indices), 1)
        return row.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    places = _check_indices(indices, x.shape[axis], validate_indices)
    if batch_dims:
        return _gather_batches(x, places, axis, batch_dims)
    y = x.index_select(axis, places.flatten())
    # a scalar index drops the axis, down to no axis at all
    return y.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _find_place(index: Tensor, size: int, validate: bool) -> int:
    """A single index as a place from 0 on."""
    place = int(index)
    # With validate_indices a negative index is an error; else it counts from the end.
    if not (0 if validate else -size) <= place < size:
        raise IndexError(f"index {place} is outside an axis of {size}")
    return place % size


def _gather_batches(x: Tensor, places: Tensor, axis: int, batch_dims: int) -> Tensor:
    batch = x.shape[:batch_dims]
    # [*batch, ...] -> [batch, ...], one sample at a time
    pairs = zip(x.flatten(0, batch_dims - 1), places.flatten(0, batch_dims - 1), strict=True)
    rows = [gather(one, where, axis - batch_dims) for one, where in pairs]
    # [batch, ...] -> [*batch, ...]
    return torch.stack(rows).reshape(*batch, *rows[0].shape)


def gather_along_axis(
    x: Tensor, indices: Tensor, axis: int = 0, validate_indices: bool = False
) -> Tensor:
    """y[i, j] = x[indices[i, j], j] for axis 0, and so on."""
    return torch.take_along_dim(x, _check_indices(indices, x.shape[axis], validate_indices), axis)


def gather_nd(
    x: Tensor, indices: Tensor, batch_dims: int = 0, validate_indices: bool = False
) -> Tensor:
    """Slices of x at the coordinates in the last axis of `indices`."""
    coordinates = _check_coordinates(indices, x.shape[batch_dims:], validate_indices)
    # every sample of a batch axis is indexed by its own number
    for i in range(batch_dims):
        shape = [1] * coordinates[0].dim()
        shape[i] = x.shape[i]
        # [1, ..., n_i, ..., 1] broadcasts over the other axes of the coordinates.
        coordinates.insert(i, torch.arange(x.shape[i]).reshape(shape))
    return x[tuple(coordinates)]


def scatter(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool | None = None,
) -> Tensor:
    """Slices of `data` along `axis` combined with `updates` [..., len(indices), ...].
    validate_indices is None before iOS 17.
    """
    axis %= data.dim()
    where, inside = _find_targets(indices, data.shape[axis], validate_indices)
    # a row of a list
    if (
        mode in ("update", "add")
        and inside is None
        and where.numel() == 1
        and updates.dim() == data.dim()
    ):
        # A value is never written in place: another step may still read `data`.
        y = data.clone()
        row = y.narrow(axis, int(where), 1)
        row.copy_(updates) if mode == "update" else row.add_(updates)
        return y
    # Every element's own flat place, picked like the elements themselves, is where to write.
    places = _list_places(data).index_select(axis, where.flatten())
    if inside is not None:
        # [k] -> [1, ..., k, ..., 1], then over the whole slices
        inside = inside.reshape([-1 if i == axis else 1 for i in range(data.dim())]).expand(
            places.shape
        )
    return _combine(data, places, updates, mode, inside)


def scatter_along_axis(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool | None = None,
) -> Tensor:
    """Elements of `data` at indices[i, j] along `axis` combined with updates[i, j]."""
    where, inside = _find_targets(indices, data.shape[axis], validate_indices)
    places = torch.take_along_dim(_list_places(data), where, axis)
    return _combine(
        data, places, updates, mode, None if inside is None else inside.expand(places.shape)
    )


def scatter_nd(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    mode: str = "add",
    validate_indices: bool | None = None,
) -> Tensor:
    """Slices of `data` at the coordinates in the last axis of `indices` combined with `updates`."""
    pairs = [
        _find_targets(part, size, validate_indices)
        # Fewer coordinates than axes address whole slices, so the shorter list decides.
        for part, size in zip(indices.unbind(-1), data.shape, strict=False)
    ]
    places = _list_places(data)[tuple(where for where, _ in pairs)]
    masks = [inside for _, inside in pairs if inside is not None]
    if not masks:
        return _combine(data, places, updates, mode)
    inside = torch.stack(masks).all(0)
    return _combine(
        data,
        places,
        updates,
        mode,
        # [*K] -> [*K, 1, ...], then over the whole slices
        inside.reshape(*inside.shape, *[1] * (places.dim() - inside.dim())).expand(places.shape),
    )


def _find_targets(
    indices: Tensor, size: int, validate: bool | None
) -> tuple[Tensor, Tensor | None]:
    """(places from 0 on, which of them are written: None for all). `validate` is None before iOS
    17.
    """
    # None and True refuse what is outside; only False, from iOS 17 on, leaves it undefined.
    if validate is not False:
        return _check_indices(indices, size, bool(validate)), None
    inside = (indices >= 0) & (indices < size)
    if bool(inside.all()):
        return indices.long(), None
    warnings.warn(
        f"a scatter's index is outside an axis of {size}, undefined in Core ML: not written",
        RuntimeWarning,
        stacklevel=2,
    )
    # Place 0 is a stand-in that indexes safely; the mask keeps it from being written.
    return torch.where(inside, indices, 0).long(), inside


def _combine(
    data: Tensor, places: Tensor, updates: Tensor, mode: str, inside: Tensor | None = None
) -> Tensor:
    """data with updates[k] combined at flat place places[k], where it is kept; repeated places
    combine one after the other.
    """
    # flatten may give a view of data, so the clone comes first.
    flat = data.flatten().clone()
    places = places.flatten()
    updates = updates.flatten().to(data.dtype)
    if inside is not None:
        # Dropped before the writing, so that no stand-in takes part in a sum or a maximum.
        places, updates = places[inside.flatten()], updates[inside.flatten()]
    if mode == "update":
        flat[places] = updates
    elif mode in ("add", "sub"):
        flat.index_add_(0, places, updates, alpha=1 if mode == "add" else -1)
    elif mode == "div":
        # Repeated divisors multiply, so one division at the end serves all of them.
        flat = flat / torch.ones_like(flat).scatter_reduce_(0, places, updates, "prod")
    elif mode in ("mul", "max", "min"):
        # The old value takes part in every reduction (include_self is the default).
        flat.scatter_reduce_(
            0, places, updates, {"mul": "prod", "max": "amax", "min": "amin"}[mode]
        )
    else:
        raise ValueError(
            f"scatter mode '{mode}' is unknown; one of update, add, sub, mul, div, max, min"
        )
    return flat.reshape(data.shape)


def _list_places(data: Tensor) -> Tensor:
    return torch.arange(data.numel()).reshape(data.shape)


def _check_coordinates(indices: Tensor, shape: torch.Size, validate: bool) -> list[Tensor]:
    return [
        _check_indices(part, size, validate)
        for part, size in zip(indices.unbind(-1), shape, strict=False)
    ]


def _check_indices(indices: Tensor, size: int, validate: bool = False) -> Tensor:
    # the usual case of a loop: Python is faster than five tensor operations
    if indices.numel() <= _FEW:
        places = indices.flatten().tolist()
        if places and (min(places) < (0 if validate else -size) or max(places) >= size):
            raise IndexError(f"index {min(places)} or {max(places)} is outside an axis of {size}")
        # Negative ones go on below, where they are turned into places from 0.
        if not places or min(places) >= 0:
            return indices.long()
    indices = indices.long()
    if indices.numel() and (
        int(indices.min()) < (0 if validate else -size) or int(indices.max()) >= size
    ):
        raise IndexError(
            f"index {int(indices.min())} or {int(indices.max())} is outside an axis of {size}"
        )
    return torch.where(indices < 0, indices + size, indices)


def argsort(x: Tensor, axis: int = -1, ascending: bool = False) -> Tensor:
    """Places in sorted order; equal values keep their order."""
    return torch.sort(x, dim=axis, descending=not ascending, stable=True)[1]


def topk(
    x: Tensor,
    k: int = 1,
    axis: int = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: str = "int32",
) -> tuple[Tensor, ...]:
    """The k largest (or smallest) values along `axis`, sorted, and their places; k = -1 for all."""
    # torch.topk leaves the order of equal values open; a stable sort keeps the first.
    values, places = torch.sort(x, dim=axis, descending=not ascending, stable=True)
    count = x.shape[axis] if k == -1 else k
    values, places = values.narrow(axis, 0, count), places.narrow(axis, 0, count)
    return (values, places) if return_indices else (values,)


def non_zero(x: Tensor) -> Tensor:
    """[count, rank] places of the values that are not zero."""
    return x.nonzero()


def one_hot(
    indices: Tensor,
    one_hot_vector_size: int,
    axis: int = -1,
    on_value: float = 1,
    off_value: float = 0,
) -> Tensor:
    """A new axis with on_value at the index and off_value elsewhere; an index outside gives only
    off_value.
    """
    axis %= indices.dim() + 1
    # [size] -> [size, 1, ...], which lines up with the new axis
    steps = torch.arange(one_hot_vector_size).reshape(-1, *[1] * (indices.dim() - axis))
    # No step equals an index outside, so such a vector is all off_value.
    return torch.where(indices.unsqueeze(axis) == steps, on_value, off_value)


def shape(x: Tensor) -> Tensor:
    """[rank] the shape of x."""
    return torch.tensor(x.shape, dtype=torch.int32)


def range_1d(end: float, start: float, step: float) -> Tensor:
    """start, start + step, ... below (above, for a negative step) end."""
    # Integers stay exact; floats count in float64, so that rounding adds no step at the end.
    whole = all(isinstance(n, int) for n in (start, end, step))
    return torch.arange(start, end, step, dtype=torch.int64 if whole else torch.float64)


def fill(shape: list[int], value: float = 0.0) -> Tensor:
    """A tensor of this shape full of `value`."""
    return torch.full(shape, value)


def fill_like(ref_tensor: Tensor, value: float = 0.0) -> Tensor:
    """A tensor of the shape of `ref_tensor` full of `value`."""
    return torch.full(ref_tensor.shape, value)


def band_part(x: Tensor, lower: int = -1, upper: int = -1) -> Tensor:
    """x with zeros outside a band of the last two axes: `lower` diagonals below, `upper` above,
    negative for all.
    """
    rows, columns = torch.arange(x.shape[-2]).unsqueeze(1), torch.arange(x.shape[-1])
    # A negative bound keeps its whole triangle.
    keep = ((lower < 0) | (rows - columns <= lower)) & ((upper < 0) | (columns - rows <= upper))
    return torch.where(keep, x, torch.zeros((), dtype=x.dtype))


INDEXING = MappingProxyType(
    {
        "argsort": kernel(argsort, half=True),
        "band_part": kernel(band_part, half=True),
        "fill": kernel(fill),
        "fill_like": kernel(fill_like, half=True),
        "gather": kernel(gather, half=True),
        "gather_along_axis": kernel(gather_along_axis, half=True),
        "gather_nd": kernel(gather_nd, half=True),
        "non_zero": kernel(non_zero, half=True),
        "one_hot": kernel(one_hot),
        "range_1d": kernel(range_1d),
        "scatter": kernel(scatter),
        "scatter_along_axis": kernel(scatter_along_axis),
        "scatter_nd": kernel(scatter_nd),
        "shape": kernel(shape, half=True),
        "topk": kernel(topk, half=True),
    }
)
