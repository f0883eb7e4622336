"""Classes that functions of the tests ask for."""

import dataclasses
import enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, Field


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Point:
    """A place on a map.

    :param x: to the east
    """

    x: int
    y: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)
    norm: float = dataclasses.field(init=False, default=0.0)


@dataclasses.dataclass
class Line:
    ends: list[Point]
    colour: Colour = Colour.RED


class Options(TypedDict):
    """How to search.

    Args:
        case: whether case counts
    """

    case: bool
    depth: NotRequired[Annotated[int, Field(description="how deep")]]


class Ride(BaseModel):
    kind: Literal["ride"]
    place: Point | None = None


class Received:
    """The values that a function received. It is no result, so an invocable returns it as it is."""

    def __init__(self, *values: Any) -> None:
        self.values = values
