"""Commands that talk with a model: ask, chat, resume, approvals."""
