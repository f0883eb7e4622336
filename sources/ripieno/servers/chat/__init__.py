"""Conversations for web pages and chat applications: an ASGI sub-application, and the runs that it holds."""
