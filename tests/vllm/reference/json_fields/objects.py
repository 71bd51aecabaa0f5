"""The JSON objects of all commands."""

from tests.vllm.reference.json_fields.field import JsonField
from tests.vllm.reference.json_fields.files import COMPARE, EXPLAIN
from tests.vllm.reference.json_fields.names import CARDS, LIST, MUSEUM, SHOW
from tests.vllm.reference.json_fields.nights import NIGHTLY, REPORT
from tests.vllm.reference.json_fields.runs import EXPLORE, REPLAY, RUN, WHOLE

ERROR = (
    JsonField("error", "object", "why there is no result"),
    JsonField("error.exit_code", "number", "2 or 3"),
    JsonField("error.message", "text", "the line on stderr"),
)

OBJECTS = {
    "dpsim run": RUN,
    "dpsim explore": EXPLORE,
    "dpsim explore --all-up-to, --swarm": WHOLE,
    "dpsim replay": REPLAY,
    "dpsim compare": COMPARE,
    "dpsim explain": EXPLAIN,
    "dpsim list": LIST,
    "dpsim show": SHOW,
    "dpsim museum": MUSEUM,
    "dpsim museum NAME": CARDS,
    "dpsim campaign nightly": NIGHTLY,
    "dpsim campaign report": REPORT,
    "any command that ends with 2 or 3 without a result": ERROR,
}
"""Maps a command to the fields of its object."""
