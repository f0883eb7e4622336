"""The person who signs in at a server, and the exceptions of a sign-in."""

from typing import Protocol


class SignInNeeded(Exception):
    """A person has to sign in; the text is the reason, to follow the name of the server."""


class SignInRefused(Exception):
    """The person or the authorization server refused; the text states which."""


class SignInUnwanted(Exception):
    """The server answers without a sign-in and describes no authorization server."""


class Person(Protocol):
    """A person who can sign in now."""

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser returns."""
        ...

    async def visit(self, url: str) -> None:
        """Shows the page of the authorization server."""
        ...

    async def answer(self) -> dict[str, str]:
        """The parameters that the browser brought. Errors: ``SignInRefused``."""
        ...
