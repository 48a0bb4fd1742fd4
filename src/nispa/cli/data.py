"""``nispa data``: what is on disk, and getting what is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from nispa.data.catalog import Found
    from nispa.data.readers import ImageSet

app = App(name="data", help="Show the data sets on this machine, and download missing ones.")

Data = Annotated[Path | None, Parameter(name="--data", help="Data folder (else NISPA_DATA, then the cache).")]


@app.command
def check(*, data: Data = None) -> None:
    """Read every known data set that is found: where it lies, its format, images per class.

    The first reading of parquet and archives decodes them into the cache folder and takes a while.
    """
    from rich.console import Console
    from rich.markup import escape

    from nispa.data import catalog
    from nispa.data.known import DATASETS
    from nispa.errors import NispaError

    console, failed = Console(highlight=False, soft_wrap=True), []
    roots = [str(root) for root in catalog.roots(data)]
    console.print(f"Looking in {', '.join(roots)}", markup=False)
    for name, wanted in DATASETS.items():
        try:
            found = catalog.find(name, data)
            if found is None:
                console.print(f"\n[bold]{name}[/]: not found; get it with `nispa data get {name}`")
                continue
            with console.status(f"reading {name}"):
                images = catalog.read(found)
        except NispaError as error:
            failed.append(name)
            console.print(f"\n[bold]{name}[/]: [red]damaged[/]: {escape(str(error))}")
            continue
        console.print(f"\n[bold]{name}[/]: {wanted.title}, {found.layout}")
        for line in describe(found, images):
            console.print(line, markup=False)
    if failed:
        raise NispaError(f"{len(failed)} damaged: {', '.join(failed)}; get the files again")


def describe(found: Found, images: ImageSet) -> list[str]:
    """Indented lines of at most 80 columns, a long path apart."""
    import textwrap

    wanted = found.dataset
    lines = [f"  {found.path}"]
    for (part, samples), official in zip(images.parts().items(), wanted.counts, strict=False):
        counts = samples.counts(len(wanted.classes))
        low, high = int(counts.min()), int(counts.max())
        each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        share = "" if len(samples) == official else f" ({len(samples) / official:.0%} of {official:,})"
        lines.append(f"  {part:<5} {len(samples):>7,} images{share}, {len(counts)} classes of {each}")
        if low != high:
            listed = "  ".join(f"{c}:{n}" for c, n in zip(wanted.classes, counts.tolist(), strict=True))
            lines += textwrap.wrap(listed, 78, initial_indent="    ", subsequent_indent="    ")
    return lines


@app.command
def get(name: str, /, *, data: Data = None) -> None:
    """Download a data set from its official mirror, with checksum; a second call goes on where one broke off.

    Parameters
    ----------
    name
        mnist, emnist, fashion-mnist, cifar10 or cifar100
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    from nispa.data.download import get as download

    bars: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(highlight=False, soft_wrap=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def show(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file, total=total)
            progress.update(bars[file], completed=done, total=total)

        folder = download(name, data, progress=show)
    console.print(f"{name} is in {folder}", markup=False)
