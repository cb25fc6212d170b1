"""A progress bar on the terminal: how much is done, at what rate, and how long the rest will take."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(unit: str, *, title: str = "", total: int | None = None) -> Iterator[Callable[..., None]]:
    """Give a function that is told how far it has come, and of how much, and under which title, where that changes.

    Nothing is shown where there is no terminal.
    """
    from rich.console import Console  # all this is large, and every role imports verbs that have a bar
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Units a second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}} {unit}"),
        Rate(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)

        def tell(done: int, of: int | None = None, said: str | None = None) -> None:
            progress.update(task, completed=done, total=of, description=said)

        yield tell
