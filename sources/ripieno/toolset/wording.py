"""Numbers of things as people say them. Pure."""


def several(number: int, what: str, many: str | None = None) -> str:
    """``1 byte``, ``2 bytes``, ``0 bytes``; ``many`` is for words that take more than an s."""
    return f"{number} {what if number == 1 else many or f'{what}s'}"
