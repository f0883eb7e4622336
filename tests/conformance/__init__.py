"""The public conformance suite of the Model Context Protocol, run against our server and our client."""
