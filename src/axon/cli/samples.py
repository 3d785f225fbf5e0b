"""A device's own samples, from a file that anybody may have made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.devices.memory import available_bytes
from axon.errors import ConfigurationError
from axon.values import Samples


def own_samples(path: Path) -> Samples:
    """The samples of an .npz file: `inputs`, one whole number of `labels` each, maybe a `scale`."""
    arrays = _arrays(path)
    missing = [name for name in ("inputs", "labels") if name not in arrays]
    if missing:
        raise ConfigurationError(
            f"{path} has no array {' and '.join(missing)}, only {', '.join(arrays) or 'nothing'}"
        )
    inputs, labels = arrays["inputs"], arrays["labels"]
    if inputs.dtype.kind not in "fiub" or labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise ConfigurationError(
            f"{path} needs numbers as inputs and a row of whole numbers as labels, "
            f"got {inputs.dtype} and {labels.dtype} of shape {labels.shape}"
        )
    if not inputs.ndim:
        raise ConfigurationError(f"{path} needs an input for each label, got a single number")
    if not len(labels):
        raise ConfigurationError(f"{path} has no samples")
    return Samples(inputs, labels, _scale(path, arrays.get("scale", np.ones(()))))


def _scale(path: Path, scale: NDArray[Any]) -> float:
    number = math.nan
    if scale.size == 1 and scale.dtype.kind in "fiu":
        number = float(scale.reshape(-1)[0])
    if not math.isfinite(number):
        raise ConfigurationError(f"{path}: scale must be one finite number")
    return number


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:
            # Without pickles, which would run the code of whoever made the file.
            stored = np.load(file, allow_pickle=False)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise TypeError("it holds one array without a name")
            _check_room(path, stored)
            arrays = {name: stored[name] for name in stored.files}
    except ConfigurationError:
        raise
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        # What numpy and its unpackers raise depends on where the bytes of the file go wrong.
        raise ConfigurationError(
            f"{path} is no .npz file of plain arrays: {str(error) or type(error).__name__}",
            hint="make it with numpy.savez(path, inputs=..., labels=...)",
        ) from error
    odd = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if odd:
        raise ConfigurationError(f"{path} holds bytes that are no array as {', '.join(odd)}")
    return arrays


def _check_room(path: Path, stored: np.lib.npyio.NpzFile) -> None:
    """A small file may unpack to more than there is memory, and the system would kill us for it."""
    assert stored.zip is not None, "it was just opened"
    # The unpacker stops at the sizes that the file itself states.
    needed, room = sum(entry.file_size for entry in stored.zip.infolist()), available_bytes()
    if needed > room:
        raise ConfigurationError(
            f"{path} unpacks to {needed / 1e6:,.0f} MB, and {room / 1e6:,.0f} MB of memory are free"
        )
