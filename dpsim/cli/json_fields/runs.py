"""The objects of `run`, `explore` and `replay`."""

from dpsim.cli.json_fields.field import CULPRIT, EVIDENCE, FINDINGS, JsonField, below
from dpsim.cli.json_fields.nights import COVERAGE

RUN = (
    JsonField("scenario", "text", "its name"),
    JsonField("backend", "text", "where it ran"),
    JsonField("verdict", "text", "`held`, `violated` or `vacuous`"),
    JsonField("lost", "text or null", "what the machine took away from the run"),
    JsonField("class", "text or null", "the class of the first finding"),
    JsonField("culprit", "object or null", "the culprit of the first finding"),
    *below("culprit", CULPRIT),
    JsonField("met", "true or false", "whether the outcome is as the scenario expects"),
    JsonField("unmet", "text or null", "the part of the expectation that the run does not meet"),
    JsonField("unclaimed", "text or null", "why this backend can neither meet the expectation nor break it"),
    JsonField("never_applied", "list of text", "planted faults and delays whose address no rank reached"),
    JsonField("findings", "list of objects", "all findings, the first one first"),
    *below("findings[]", FINDINGS),
    *EVIDENCE,
    JsonField("switched_off", "object", "suppressed findings per pattern"),
    JsonField("switched_off.*", "number", "the findings that this pattern left out"),
    JsonField("not_run", "object", "the checks whose classes are all switched off"),
    JsonField("not_run.*", "list of text", "the patterns that switch this check off"),
    JsonField("steps", "number", "one more than the step of the last call of rank 0"),
    JsonField("figures", "object", "figures of the program, under its names"),
    JsonField("figures.*", "any", "a figure"),
    JsonField("graphs", "object or null", "captured graphs, if the scenario asks for them"),
    JsonField("graphs.captured", "number", "captures that ended without an error"),
    JsonField("graphs.replayed", "number", "replays of all graphs"),
    JsonField("waited_ns", "list of numbers", "nanoseconds that each rank waited for others"),
    JsonField("elapsed_ns", "number", "nanoseconds of the whole run, simulated or on the clock"),
    JsonField("digest", "text or null", "the digest of the trace"),
    JsonField("results", "text, may be absent", "the folder of report, picture, trace and scenario"),
)

FAILURES = (
    JsonField("class", "text", "the class of its first finding"),
    JsonField("what", "text", "its class, culprit and site, equal in each search that finds it"),
    JsonField("fingerprint", "text", "a short name of the failure with its schedule, which another search may shorten"),
    JsonField("by", "text", "the strategy that found it"),
    JsonField("first", "number", "the number of the schedule that showed it first"),
    JsonField("seen", "number", "schedules that showed it"),
    JsonField("schedule", "list", "the choices of a shortest schedule that shows it"),
    JsonField("confirmed", "true or false", "whether a second run of this schedule shows the same"),
    JsonField("trace", "text or null", "the file of its trace"),
)

LIMIT = (
    "what ended the search early: `schedules`, `budget`, `strategy` (it proves nothing), `memory`, or `length` "
    "(dpsim cut some runs off)"
)

CUT_SHORT = (
    JsonField("limit", "text", LIMIT),
    JsonField("reason", "text", "the limit with its value"),
    JsonField("begun", "true or false", "whether any schedule of these worlds ran"),
    JsonField("worlds", "number", "the number of these worlds"),
    JsonField("first", "number", "the number of the first one in the set, from 1"),
    JsonField("first_scenario", "text", "its scenario, as a file that `explore` reads"),
    JsonField("all", "list of objects", "each of these worlds; the first 1,000 if none of them began"),
    JsonField("all[].world", "number", "its number in the set, from 1"),
    JsonField("all[].params", "object or null", "the parameters of its program"),
    JsonField("all[].params.*", "any", "a parameter"),
    JsonField("all[].differs", "text", "how it differs from the scenario; empty if it does not"),
)

AGAINST = (
    JsonField("backend", "text", "the backend"),
    JsonField("runs", "number", "runs that were made"),
    JsonField("outcomes", "number", "outcomes that differ from each other"),
    JsonField("early", "number", "runs in which a time-out passed early; these refute nothing"),
    JsonField("refuted", "true or false", "whether a run shows what no schedule of a proven world shows"),
    JsonField("why", "text or null", "why no run was made"),
    JsonField("unseen", "list of objects", "the outcomes that the search did not see"),
    JsonField("unseen[].run", "number", "the number of the run, from 1"),
    JsonField("unseen[].actor", "text", "the rank, service or thread that first learned something else"),
    JsonField("unseen[].learned", "text", "what it learned, or how it ended"),
    JsonField("unseen[].where", "text or null", "file and line"),
    JsonField("unseen[].seen", "list of text", "what it learned there in the schedules"),
    JsonField("unseen[].together", "list of text", "actors that are each as in some schedule, but never together"),
)

EXPLORED = (
    JsonField("scenario", "text", "its name"),
    JsonField("verdict", "text", "`proven`, `bounded`, `sampled`, `vacuous`, `violated` or `lost`"),
    JsonField("lost", "text or null", "what the machine took away"),
    JsonField("assumes", "list of text", "the assumptions of the verdict"),
    JsonField("no_other_effect", "list of text", "effects of hardware behind the words `no other effect of hardware`"),
    JsonField("met", "true or false", "whether the outcome is as the scenario expects"),
    JsonField("unmet", "text or null", "the part of the expectation that the outcome does not meet"),
    JsonField("limit", "text or null", LIMIT),
    JsonField("schedules", "number", "schedules that were run"),
    JsonField("classes", "number", "classes of equivalent schedules among them"),
    JsonField("redundant", "number", "schedules that dpsim cut off because an equivalent one had run"),
    JsonField("cut", "number", "schedules that grew too long, which dpsim cut off"),
    JsonField("unended", "number", "schedules among these that kept no event waiting; then `met` is false"),
    JsonField("longest", "number", "choices after which dpsim cuts a schedule off"),
    JsonField("within", "text or null", "the bounds within which every schedule was tried"),
    JsonField("unfinished", "text or null", "wider bounds, of which only a part was tried"),
    JsonField("progress", "object or null", "how far the search is"),
    JsonField("progress.units_done", "number", "finished units of work"),
    JsonField("progress.units_open", "number", "units that are left"),
    JsonField("progress.schedules_a_second", "number", "speed"),
    JsonField(
        "progress.estimate_log2", "number or null", "estimate of all schedules, as a logarithm to the base of two"
    ),
    JsonField("progress.spread_log2", "list of numbers or null", "lower and upper end of this estimate"),
    JsonField("stood", "text or null", "where each rank was in the last run that was cut off or ran out of time"),
    JsonField("new_per_hundred", "number", "new classes in the last hundred schedules"),
    JsonField("races", "object", "pairs of sites that race"),
    JsonField("races.pairs", "number", "all pairs"),
    JsonField("races.both_orders", "number", "pairs that the search saw in both orders"),
    JsonField("probes", "object", "the probes of the program, and further ones that a rank reached"),
    JsonField("probes.*", "number", "schedules that reached this probe"),
    JsonField("failures", "list of objects", "the failures, each once"),
    *below("failures[]", FAILURES),
    JsonField("class", "text or null", "the class of the first failure"),
    JsonField("culprit", "text or null", "the culprit of the first failure, in words"),
    *EVIDENCE,
    JsonField("against", "object or null", "the runs of `--against`"),
    *below("against", AGAINST),
    JsonField("confirmed", "true, false or null", "that of the first failure"),
    JsonField("trace", "text or null", "that of the first failure"),
    JsonField("results", "list of text, may be absent", "folders of report, picture, trace and scenario"),
)

EXPLORE = (
    JsonField("met", "true or false", "whether all outcomes are as their scenarios expect"),
    JsonField("scenarios", "list of objects", "an object for each scenario"),
    *below("scenarios[]", EXPLORED),
    *COVERAGE,
)

WHOLE = (
    JsonField("met", "true or false", "whether all outcomes are as their scenarios expect"),
    JsonField("scenarios", "list of objects", "an object for each scenario"),
    *below(
        "scenarios[]",
        (
            JsonField("scenario", "text", "its name"),
            JsonField("sizes", "object, may be absent", "the bounds of `--all-up-to`"),
            JsonField("sizes.*", "any", "a bound"),
            JsonField("swarm", "object, may be absent", "the number of worlds and the kinds of `--swarm`"),
            JsonField("swarm.*", "any", "a number, or a list of kinds"),
            JsonField("possible", "object, may be absent", "for each kind of fault, the worlds that allow it"),
            JsonField("possible.*", "number", "worlds that allow this kind"),
            JsonField("not_varied", "list of text", "the fields that have one value in all worlds"),
            JsonField("outside", "text or null", "what the set lacks of the scenario itself"),
            JsonField("verdict", "text", "that on all worlds together, a word as `explore` has it"),
            JsonField("met", "true or false", "whether the outcome is as the scenario expects"),
            JsonField("unmet", "text or null", "the part of the expectation that the outcome does not meet"),
            JsonField("worlds", "number", "all worlds"),
            JsonField("explored", "number", "explored worlds"),
            JsonField("proven", "number", "worlds that are proven"),
            JsonField("bounded", "number", "worlds with a run that dpsim cut off"),
            JsonField("sampled", "number", "worlds whose budget ended first"),
            JsonField("vacuous", "number", "worlds without anything to coordinate"),
            JsonField("cut_short", "list of objects", "the worlds that a limit cut short, an object for each limit"),
            *below("cut_short[]", CUT_SHORT),
            JsonField("schedules", "number", "schedules of all worlds"),
            JsonField("probes", "object", "the probes of the program, and further ones that a rank reached"),
            JsonField("probes.*", "number", "worlds that reached this probe"),
            JsonField("alone", "number", "worlds in which each rank also ran alone in a process"),
            JsonField("never_applied", "list of text", "planted faults and delays whose address no rank reached"),
            JsonField("assumes", "list of text", "the assumptions of the verdict"),
            JsonField("lost", "text or null", "what the machine took away"),
            JsonField("next", "list of text", "the command that goes on where a limit ended the search"),
            JsonField("violated", "object or null", "the first world that fails, as `explore` without sizes has it"),
        ),
    ),
    *COVERAGE,
)

REPLAY = (
    JsonField("trace", "text", "the file or token"),
    JsonField("scenario", "text", "its name"),
    JsonField("backend", "text", "where it ran"),
    JsonField("same", "true or false", "whether the run is that of the trace"),
    JsonField("class", "text or null", "the class of the first finding now"),
    JsonField("class_in_trace", "text or null", "the class in the trace"),
    JsonField("steps", "number", "choices of the schedule"),
    JsonField("skipped", "list of text", "choices of the trace that were not possible"),
    JsonField("added", "list of text", "choices that the trace does not have"),
    JsonField("stalled", "list of text", "gates at which a run on real processes waits"),
    *EVIDENCE,
    JsonField("difference", "text or null", "the first difference to the trace"),
    JsonField("results", "text, may be absent", "the folder of report, picture, trace and scenario"),
)
