"""``[journal]``: whether what happens in conversations is written down."""

from ripieno.descriptors.keys import Key, Table
from ripieno.descriptors.kinds import Flag

JOURNAL = Table(
    title="[journal]",
    documentation="What happened in conversations, line by line, in the user's state.",
    keys=(
        Key(
            name="enabled",
            kind=Flag(),
            documentation="Whether it is written; left out, by the command line only.",
            example=True,
        ),
    ),
)
