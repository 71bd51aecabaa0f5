"""The objects of `compare` and `explain`."""

from tests.vllm.reference.json_fields.field import DETAIL, JsonField, below

HEADER = (
    JsonField("file", "text", "the file"),
    JsonField("backend", "text", "where it ran"),
    JsonField("verdict", "text", "the verdict of the run"),
    JsonField("class", "text or null", "the class of the first finding"),
    DETAIL,
    JsonField("records", "number", "records of all journals"),
    JsonField("digest", "text", "the digest of the trace"),
)

COMPARE = (
    JsonField("equal", "true or false", "whether decisions and the order on each communicator are equal"),
    JsonField("a", "object", "the first trace"),
    *below("a", HEADER),
    JsonField("b", "object", "the second trace"),
    *below("b", HEADER),
    JsonField("records", "number", "records of the first trace"),
    JsonField("decisions", "number", "decisions in it"),
    JsonField("collectives", "number", "collectives in it"),
    JsonField("scenario_changes", "list of text", "places in which the scenarios differ"),
    JsonField("difference", "object or null", "the first place in which the second trace is not as the first"),
    JsonField("difference.rank", "number or null", "the rank, if the place lies in one rank"),
    JsonField("difference.actor", "text", "the sequence that differs"),
    JsonField("difference.index", "number", "the position in it"),
    JsonField("difference.step", "number", "the earlier step of the two ops"),
    JsonField("difference.a", "text", "what the first trace has there"),
    JsonField("difference.b", "text", "what the second trace has there"),
    JsonField("difference.meaning", "text", "what the difference probably means"),
    JsonField("difference.ends", "list of text", "the trace of the two that did not end"),
)

EXPLAIN = (
    JsonField("outcome", "text", "`hang`, `finished`, `failed`, `moving` or `undecided`"),
    JsonField("class", "text or null", "the class of the finding"),
    DETAIL,
    JsonField("culprit", "object or null", "the ranks and the call to blame"),
    JsonField("culprit.ranks", "list of numbers", "the ranks"),
    JsonField("culprit.group", "text or null", "the process group"),
    JsonField("culprit.seq", "number or null", "the number of the call in the group"),
    JsonField("culprit.op", "text or null", "the call"),
    JsonField("culprit.site", "text or null", "file and line"),
    JsonField("culprit.chain", "list of pairs", "function and place of each call that led there, innermost first"),
    JsonField("said", "text or null", "the act of the culprit, in a sentence"),
    JsonField("waits", "list of text", "the waits that lead to the culprit"),
    JsonField("cycle", "list of numbers", "ranks that wait for each other"),
    JsonField("undecided_ranks", "list of numbers", "ranks whose files do not decide"),
    JsonField("confidence", "text", "`high`, `medium` or `low`"),
    JsonField("ground", "list of text", "the evidence"),
)
