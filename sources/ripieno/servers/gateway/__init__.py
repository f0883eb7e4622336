"""The gateway: requests over any wire, answered by any model, with tools that run here. Names no vendor."""
