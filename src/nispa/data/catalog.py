"""Finding and reading the known data sets, in whatever layout they lie on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nispa.data.cache import cached
from nispa.data.folders import cache_folder
from nispa.data.known import DATASETS, DataSet
from nispa.data.readers import ImageSet, Part
from nispa.data.readers.archive import read_tar
from nispa.data.readers.cifar import read_binary, read_python
from nispa.data.readers.common import join, read_bytes
from nispa.data.readers.idx import read_idx_pair
from nispa.data.readers.npz import read_npz
from nispa.data.readers.parquet import read_parquet, shards
from nispa.errors import NispaError, nearest


@dataclass(frozen=True)
class Found:
    """A data set on disk: where, in which format, and how to read it."""

    dataset: DataSet
    path: Path
    layout: str
    read: Callable[[], ImageSet]


def dataset(name: str) -> DataSet:
    """The data set of this name."""
    if name not in DATASETS:
        raise NispaError(f"unknown data set {name!r}{nearest(name, DATASETS)} (known: {', '.join(DATASETS)})")
    return DATASETS[name]


def roots(data: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where to look, in this order: ``data`` alone if given, else NISPA_DATA, then the cache folder."""
    if data is not None:
        root = Path(data).expanduser()
        if not root.is_dir():
            state = "is not a folder" if root.exists() else "does not exist"
            raise NispaError(f"data folder {str(root)!r} {state}; give --data the folder of your data sets")
        return [root]
    listed = os.environ.get("NISPA_DATA", "").split(os.pathsep)
    return [Path(entry).expanduser() for entry in listed if entry] + [cache_folder() / "data"]


def find(name: str, data: str | os.PathLike[str] | None = None) -> Found | None:
    """The first complete copy of a data set under the roots."""
    wanted = dataset(name)
    for folder, own in _candidates(wanted, roots(data)):
        for layout in _LAYOUTS:
            found = layout(wanted, folder, own)
            if found is not None:
                return found
    return None


def load(name: str, data: str | os.PathLike[str] | None = None) -> ImageSet:
    """Read a data set, wherever it lies."""
    found = find(name, data)
    if found is None:
        looked = ", ".join(map(str, roots(data)))
        raise NispaError(
            f"data set {name!r} is not in {looked}; get it with `nispa data get {name}`,"
            " or name its folder with --data or NISPA_DATA"
        )
    return read(found)


def read(found: Found) -> ImageSet:
    """Read what was found, and make sure that it is what its name says."""
    images, wanted = found.read(), found.dataset
    for name, part in images.parts().items():
        if part.images.shape[1:] != wanted.shape:
            raise NispaError(
                f"{found.path}: {name} images of shape {part.images.shape[1:]}, but {wanted.title} has"
                f" {wanted.shape}; another data set lies there"
            )
        if len(part) and int(part.labels.max()) >= len(wanted.classes):
            raise NispaError(f"{found.path}: {name} label {part.labels.max()}, but {wanted.title} has less")
    return ImageSet(images.train, images.test, class_names=wanted.classes)


def _candidates(wanted: DataSet, where: list[Path]) -> Iterator[tuple[Path, bool]]:
    """Folders to look in, and whether their name says that they hold this data set.

    A root itself may be the data set's folder (``--data …/MNIST``); if its name does not say so, only
    file names that no other data set uses count.
    """
    plain = [name for name in wanted.folders if "*" not in name]
    for root in where:
        for name in wanted.folders:
            yield from ((path, True) for path in sorted(root.glob(name)) if path.is_dir())
        own = any(root.resolve().match(name) for name in plain)
        yield root, own
        if own:
            yield from ((root / sub, True) for sub in ("raw", "gzip") if (root / sub).is_dir())


def _idx(wanted: DataSet, folder: Path, own: bool) -> Found | None:
    if wanted.shape[0] != 1 or not (own or wanted.prefix):
        return None
    test = "test" if wanted.prefix else "t10k"
    files: list[Path] = []
    for stem in ("train-images-idx3", "train-labels-idx1", f"{test}-images-idx3", f"{test}-labels-idx1"):
        plain = folder / f"{wanted.prefix}{stem}-ubyte"
        file = next((f for f in (plain, plain.with_name(plain.name + ".gz")) if f.is_file()), None)
        if file is None:
            return None
        files.append(file)
    pair = partial(read_idx_pair, classes=len(wanted.classes), transposed=bool(wanted.prefix))
    layout = "idx.gz" if files[0].suffix == ".gz" else "idx"
    return Found(wanted, folder, layout, lambda: ImageSet(pair(*files[:2]), pair(*files[2:])))


def _cifar_names(wanted: DataSet, binary: bool) -> tuple[str, list[str], str]:
    """Folder (and archive) name, training files, test file."""
    end = ".bin" if binary else ""
    if wanted.name == "cifar10":
        batches = [f"data_batch_{i}{end}" for i in range(1, 6)]
        return f"cifar-10-batches-{'bin' if binary else 'py'}", batches, f"test_batch{end}"
    return f"cifar-100-{'binary' if binary else 'python'}", [f"train{end}"], f"test{end}"


def _cifar(wanted: DataSet, folder: Path, own: bool, binary: bool) -> Found | None:
    if wanted.shape[0] != 3:
        return None
    subfolder, _, test = _cifar_names(wanted, binary)
    for place in (folder / subfolder, folder):
        if (place != folder or own or place.name == subfolder) and (place / test).is_file():
            read_part = partial(_read_cifar, wanted, place, binary, partial(_file, place))
            return Found(wanted, place, "binary" if binary else "python", read_part)
    return None


def _file(folder: Path, name: str) -> bytes:
    return read_bytes(folder / name)


def _read_cifar(wanted: DataSet, path: Path, binary: bool, get: Callable[[str], bytes]) -> ImageSet:
    read_batch = read_binary if binary else read_python
    _, train, test = _cifar_names(wanted, binary)

    def batch(name: str) -> Part:
        return read_batch(get(name), path / name, len(wanted.classes))

    return ImageSet(join([batch(name) for name in train], path), batch(test))


def _archive(wanted: DataSet, folder: Path, own: bool) -> Found | None:
    if wanted.shape[0] != 3:
        return None
    stem = "cifar-10" if wanted.name == "cifar10" else "cifar-100"
    for kind in ("python", "binary"):
        path = folder / f"{stem}-{kind}.tar.gz"
        if path.is_file():
            binary = kind == "binary"
            return Found(wanted, path, f"{kind} .tar.gz", partial(_read_archive, wanted, path, binary))
    return None


def _read_archive(wanted: DataSet, path: Path, binary: bool) -> ImageSet:
    _, train, test = _cifar_names(wanted, binary)

    def build() -> ImageSet:
        files = read_tar(path, [*train, test])
        return _read_cifar(wanted, path, binary, files.__getitem__)

    return cached(wanted.name, [path], "tar", build)


def _parquet(wanted: DataSet, folder: Path, own: bool) -> Found | None:
    # no EMNIST: there is no one copy on the hub, and those that exist differ in pixel order
    if wanted.prefix or not own:
        return None
    for place in (
        folder,
        *(folder / sub for sub in ("data", "plain_text", "default", wanted.name.replace("-", "_"))),
    ):
        train, test = shards(place, "train"), shards(place, "test")
        if train and test:
            read_part = partial(_read_parquet, wanted, train, test)
            return Found(wanted, place, "parquet", read_part)
    return None


def _read_parquet(wanted: DataSet, train: list[Path], test: list[Path]) -> ImageSet:
    def build() -> ImageSet:
        part = partial(read_parquet, classes=len(wanted.classes), channels=wanted.shape[0])
        return ImageSet(part(train), part(test))

    return cached(wanted.name, [*train, *test], "parquet", build)


def _npz(wanted: DataSet, folder: Path, own: bool) -> Found | None:
    path = folder / f"{wanted.name}.npz"
    return Found(wanted, path, "npz", partial(read_npz, path)) if path.is_file() else None


_LAYOUTS: tuple[Callable[[DataSet, Path, bool], Found | None], ...] = (
    _idx,
    partial(_cifar, binary=False),
    partial(_cifar, binary=True),
    _parquet,
    _npz,
    _archive,
)
