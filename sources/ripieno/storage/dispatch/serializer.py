"""The serializer of the engine's values: JSON, since a reader of pickles, its default, runs code."""

import json
from typing import Any

import dbos
from sqlalchemy.exc import SQLAlchemyError


class JsonSerializer(dbos.Serializer):
    """Writes values as JSON: any value but an error of the database.

    The engine has one where it could not write the end of a run, and would write then that the run has failed. As it
    cannot, the run stays under way until its worker ends it again (``Dispatcher.take_back``).
    """

    def serialize(self, data: Any) -> str:
        # The engine makes an Exception of an error that is refused.
        if isinstance(data, SQLAlchemyError) or type(data) is Exception:
            raise TypeError("Errors of the database are not written.")
        return json.dumps(data, default=str)

    def deserialize(self, serialized_data: str) -> Any:
        return json.loads(serialized_data)

    def name(self) -> str:
        return "ripieno_json"
