"""The person that a server may want: who signs in, and how it is said that somebody has to, or would not."""

from typing import Protocol


class SignInNeeded(Exception):
    """A person has to sign in; the text says why, to follow the name of the server."""


class SignInRefused(Exception):
    """The person, or the authorization server, said no; the text says which."""


class SignInUnwanted(Exception):
    """The server answers without anybody who signs in, and says of no place where one could."""


class Person(Protocol):
    """Somebody who can sign in now."""

    @property
    def redirect_uri(self) -> str:
        """Where the browser comes back to."""
        ...

    async def visit(self, url: str) -> None:
        """Shows the page of the authorization server."""
        ...

    async def answer(self) -> dict[str, str]:
        """The parameters that the browser brought back. Errors: ``SignInRefused``."""
        ...
