"""The objects of `campaign`, and the key of `--coverage`."""

from tests.vllm.reference.json_fields.field import JsonField, below

COVERAGE = (
    JsonField("coverage", "object, may be absent", "what the worlds reached, with `--coverage`"),
    JsonField("coverage.worlds", "number", "worlds"),
    *(
        field
        for kind in ("probes", "modes", "branches", "rows")
        for field in (
            JsonField(f"coverage.{kind}", "object", f"the {kind} that programs declare"),
            JsonField(f"coverage.{kind}.never", "list of text", "those that no world reached"),
            JsonField(f"coverage.{kind}.reached", "object", "those that a world reached"),
            JsonField(f"coverage.{kind}.reached.*", "number", "worlds that reached it"),
        )
    ),
)

FAILURE = (
    JsonField("part", "text", "the part of the night"),
    JsonField("name", "text", "the scenario, variant or test"),
    JsonField("since", "text", "the first night that had it"),
    JsonField("what", "text", "a name of the failure, equal in each night"),
    JsonField("message", "text", "the finding in one line"),
    JsonField("show", "text or null", "a command that shows it"),
)

NIGHTLY = (
    JsonField("night", "text", "its date"),
    JsonField("file", "text", "the file of its rows"),
    JsonField("rows", "list of objects", "the rows that this command added"),
    JsonField("rows[].part", "text", "the part of the night"),
    JsonField("rows[].name", "text", "the scenario, variant or test"),
    JsonField("rows[].verdict", "text", "its verdict"),
    JsonField("rows[].worlds", "number", "worlds"),
    JsonField("rows[].schedules", "number", "schedules of all worlds"),
    JsonField("rows[].seconds", "number", "seconds on the clock"),
    JsonField("rows[].seed", "number or null", "the seed of what was drawn"),
    JsonField("rows[].failures", "list of objects", "its failures"),
    JsonField("rows[].failures[].what", "text", "a name of the failure, equal in each night"),
    JsonField("rows[].failures[].message", "text", "the finding in one line"),
    JsonField("rows[].failures[].show", "text", "a command that shows it"),
    JsonField("rows[].lost", "text", "what the machine took away"),
    JsonField("rows[].left_out", "text", "why the part did nothing"),
)

REPORT = (
    JsonField("night", "text", "the date of the newest night"),
    JsonField("before", "list of text", "the dates of the nights before"),
    JsonField("parts", "list of objects", "an object for each part"),
    JsonField("parts[].part", "text", "its name"),
    JsonField("parts[].looked_at", "number", "scenarios, variants or tests"),
    JsonField("parts[].left_out", "number", "those that it left out"),
    JsonField("parts[].worlds", "number", "worlds"),
    JsonField("parts[].schedules", "number", "schedules of all worlds"),
    JsonField("parts[].failures", "number", "failures"),
    JsonField("parts[].lost", "number", "rows that the machine took something away from"),
    JsonField("parts[].seconds", "number", "seconds on the clock"),
    JsonField("new", "list of objects", "failures that no night before had"),
    *below("new[]", FAILURE),
    JsonField("known", "list of objects", "failures that a night before had as well"),
    *below("known[]", FAILURE),
    JsonField("gone", "list of objects", "failures of the night before that were not found again"),
    *below("gone[]", FAILURE),
    JsonField("lost", "list of objects", "rows without a verdict"),
    JsonField("lost[].part", "text", "the part"),
    JsonField("lost[].name", "text", "the scenario, variant or test"),
    JsonField("lost[].why", "text", "what the machine took away"),
    JsonField("ran_nothing", "list of objects", "parts that ran nothing"),
    JsonField("ran_nothing[].part", "text", "the part"),
    JsonField("ran_nothing[].why", "text", "why it ran nothing"),
    JsonField("never", "list of objects", "what no world of the night reached"),
    JsonField("never[].kind", "text", "the kind, as under `coverage`"),
    JsonField("never[].name", "text", "program and name"),
    JsonField("never[].reached_on", "text or null", "the last night that reached it"),
    *COVERAGE,
)
