"""The HTTP client of tools: only allowed hosts, at checked addresses, with every part bounded.

``urls`` parses, ``addresses`` and ``allowed_hosts`` decide, ``connection`` resolves once and connects to that address,
``request`` follows redirects; ``headers``, ``decompression`` and ``answers`` handle the contents.
"""

from ripieno.origins.http.client.allowed_hosts import HostPattern, Limits, Reach
from ripieno.origins.http.client.answers import Wording
from ripieno.origins.http.client.connection import Resolver
from ripieno.origins.http.client.headers import METHODS, SAFE, check_header
from ripieno.origins.http.client.request import Fetched, Fetcher, Request
from ripieno.origins.http.client.urls import Host, Url, parse_host, parse_url

__all__ = [
    "METHODS",
    "SAFE",
    "Fetched",
    "Fetcher",
    "Host",
    "HostPattern",
    "Limits",
    "Reach",
    "Request",
    "Resolver",
    "Url",
    "Wording",
    "check_header",
    "parse_host",
    "parse_url",
]
