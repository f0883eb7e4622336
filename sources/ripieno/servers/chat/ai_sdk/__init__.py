"""The UI message stream of the Vercel AI SDK (``ai`` 5, 6 and 7), as another interface of a chat."""
