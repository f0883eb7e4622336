"""The web page of `ripieno serve web`: its files, its sign-in, and its API over the chat and the journal."""
