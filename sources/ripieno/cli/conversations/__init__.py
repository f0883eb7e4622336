"""Commands for conversations with a model: ask, chat, resume, approvals."""
