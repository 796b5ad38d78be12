"""What Arrow says of a file that is no Parquet, said with the file's name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa


@contextmanager
def explained(address: str | Path) -> Iterator[None]:
    """For as long as the file is read."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise ValueError(f"{address}: not a Parquet file, or a damaged one: {error}") from None
