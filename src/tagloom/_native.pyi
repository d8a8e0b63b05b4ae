"""The native core of tagloom."""

class ColumnScanner:
    """Finds sentences in the bytes of a column file."""

    def __init__(
        self,
        sep: str,
        n_columns: int,
        token: int,
        label: int,
        label_tail: int,
        id: int,
        comment: str,
        guess_comments: bool,
        unknown: str | None,
    ) -> None: ...
    def scan(
        self, data: bytes, final: bool
    ) -> tuple[
        list[tuple[bytes, list[str], list[str | frozenset[str] | None] | None, int]],
        int,
        int,
        tuple[str, int, int, int, int] | None,
    ]: ...
    def rows(self, data: bytes) -> list[tuple[int, int, int]]: ...

def first_bad_byte(data: bytes) -> int:
    """The offset of the first NUL or byte that is not UTF-8, or the length."""

def instruction_sets() -> tuple[str, ...]: ...
