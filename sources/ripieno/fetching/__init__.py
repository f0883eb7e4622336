"""HTTP requests of tools: to hosts that an operator listed, at addresses that were checked, with everything bounded.

``urls`` has the one parser that checks and connects alike, ``addresses`` the table of addresses, ``reaching`` who may
be reached, ``connecting`` one resolution and one pinned connection, ``sending`` the rules of methods and headers,
``decoding`` bounded bodies, ``following`` redirects, ``wording`` what is said of an answer, ``waiting`` when to
ask again, ``muting`` what is logged.
"""

from ripieno.execution.retries import explain_status
from ripieno.fetching.connecting import Resolver
from ripieno.fetching.following import Fetched, Fetcher, Hop, Request
from ripieno.fetching.reaching import HostPattern, Limits, Reach
from ripieno.fetching.sending import METHODS, SAFE, check_header
from ripieno.fetching.urls import Host, Url, parse_host, parse_url
from ripieno.fetching.wording import Wording
from ripieno.storage.redaction import forms

__all__ = [
    "METHODS",
    "SAFE",
    "Fetched",
    "Fetcher",
    "Hop",
    "Host",
    "HostPattern",
    "Limits",
    "Reach",
    "Request",
    "Resolver",
    "Url",
    "Wording",
    "check_header",
    "explain_status",
    "forms",
    "parse_host",
    "parse_url",
]
