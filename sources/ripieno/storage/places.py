"""The folders of a user: of the configuration, and of what is kept."""

import os
import pathlib

import platformdirs

from ripieno.values import Value


class Places(Value, kw_only=True):
    """The folders of this user's own files. Tests and applications may pass others."""

    configuration: pathlib.Path
    state: pathlib.Path

    @classmethod
    def of_user(cls) -> "Places":
        """The system's folders; ``RIPIENO_CONFIG_HOME`` and ``RIPIENO_STATE_HOME`` name others."""
        configuration = os.environ.get("RIPIENO_CONFIG_HOME") or platformdirs.user_config_dir("ripieno")
        state = os.environ.get("RIPIENO_STATE_HOME") or platformdirs.user_state_dir("ripieno")
        return cls(configuration=pathlib.Path(configuration), state=pathlib.Path(state))

    @property
    def file(self) -> pathlib.Path:
        """The configuration file."""
        return self.configuration / "config.toml"
