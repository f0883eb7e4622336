"""Any model behind any wire: requests in the form of one protocol, answered by models of another, with tools that run.

Nothing in it is a vendor's: routes, requests, answers and errors are those of the protocols that are installed.
"""

from ripieno.servers.gateway.application import create_application

__all__ = ["create_application"]
