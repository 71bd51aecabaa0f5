"""Wrong scenario files, and what the reader's message about each contains.

Each entry of `BAD_FILES` contains the text of a file, with a mark at the mistake, and fragments of the message.
`test_bad_files.py` checks them. This command prints the documentation's table of files and messages:

    python -m tests.vllm.params.bad_files
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.scenario import ScenarioError, parse_scenario

WORK = "workload:\n  requests:\n    - {prompt_tokens: 4, output_tokens: 2}\n"
START = f"name: bad\n{WORK}"  # four lines, so the mistake begins in line 5
RANKS = f"{START}topology: {{data_parallel_size: 4}}\n"  # five lines


class Bad(NamedTuple):
    """A wrong file.

    `marked`: its text, with the sign § before the first mistake; the message must name this place. `place`: the place
    in files without the sign. `says`: fragments of the first message, in order. `problems`: the number of lines of the
    message.
    """

    what: str
    marked: str | bytes
    says: tuple[str, ...]
    problems: int = 1
    place: str = ""

    @property
    def text(self) -> str | bytes:
        return self.marked if isinstance(self.marked, bytes) else self.marked.replace("§", "")

    @property
    def begins(self) -> str:
        """The beginning of the message: file, line and column."""
        place = self.place
        if isinstance(self.marked, str) and "§" in self.marked:
            lines = self.marked.partition("§")[0].split("\n")
            place = f"{len(lines)}:{len(lines[-1]) + 1}"
        return f"bad.yaml:{place}: " if place else "bad.yaml: "

    def message(self) -> str:
        """Returns the reader's message. Raises AssertionError if the reader accepts the file."""
        try:
            scenario = parse_scenario(self.text, "bad.yaml")
        except ScenarioError as error:
            return str(error)
        raise AssertionError(f"{self.what}: accepted as {scenario!r}")


def after(lines: str) -> str:
    """Returns a file that is right up to its fifth line."""
    return f"{START}{lines}\n"


def fault(fields: str) -> str:
    """Returns a file with a fault in its seventh line."""
    return f"{RANKS}faults:\n  - {{{fields}}}\n"


def one(fields: str) -> str:
    """Returns a file with one request in its second line."""
    return f"name: bad\nworkload: {{requests: [{{{fields}}}]}}\n"


def synthetic(fields: str) -> str:
    """Returns a file with synthetic requests in its third line."""
    lengths = "prompt_tokens: {min: 1, max: 1}, output_tokens: {min: 1, max: 1}"
    return f"name: bad\nworkload:\n  synthetic: {{{fields}, {lengths}}}\n"


BILLION_LAUGHS = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
DEEP_ALIASES = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 60))

BAD_FILES = [
    # ---- not a YAML file
    Bad("empty file", "§", ("empty file", "expected a scenario")),
    Bad("only comments", "§# nothing\n\n", ("empty file",)),
    Bad("only a document start", "§---\n", ("empty file",)),
    Bad("a list at the top", "§- name: bad\n", ("a list at the top", "name, workload")),
    Bad("text at the top", "§name bad\n", ("a single value at the top",)),
    Bad("not YAML: unclosed bracket", f"{START}faults: [\n§", ("not YAML", "expected a value, or a closing bracket")),
    Bad("not YAML: unclosed quote", f"{START}description: 'oh\n§", ("not YAML", "line 5", "closing quote")),
    Bad("not YAML: colon in text", "name: bad§: very\n", ("not YAML", "quotes around text with a colon")),
    Bad("not YAML: indentation", after("   §topology: 1"), ("not YAML",)),
    Bad("not YAML: reserved sign", after("description: §@home"), ("not YAML", "needs quotes")),
    Bad("a tab as indentation", "name: bad\nworkload:\n§\trequests: []\n", ("a tab", "expected spaces")),
    Bad("not UTF-8", b"name: bad\ndescription: caf\xe9\n", ("byte 0xe9 is not UTF-8",), place="2:17"),
    Bad("UTF-16", "name: bad\n".encode("utf-16"), ("not UTF-8",), place="1:1"),
    Bad("a control character", "name: bad\ndescription: a§\x07b\n", ("'\\x07'", "printable")),
    Bad("two documents", after("§---\nname: two"), ("second document", "one scenario a file")),
    # ---- YAML that no scenario needs
    Bad("duplicate key", after("§name: again"), ("'name' occurs twice", "first in line 1")),
    Bad("duplicate key in braces", fault("kind: die, rank: 1, §rank: 2"), ("'rank' occurs twice", "line 7")),
    Bad(
        "a Python object",
        after("faults: §!!python/object/apply:os.system [ls]"),
        ("tag", "python/object", "without a tag"),
    ),
    Bad("an application's tag", after("description: §!secret x"), ("the tag '!secret'",)),
    Bad("a merge key", after("limits: &l {}\nexpect: {§<<: *l}"), ("merge keys", "written out")),
    Bad("a list as a key", after("? §[a, b]\n: 1"), ("a key that is no word",)),
    Bad("an unknown alias", after("faults: §*missing"), ("alias",)),
    Bad("an alias in itself", after("faults: &a [§*a]"), ("contains itself",)),
    Bad("an alias bomb", BILLION_LAUGHS, ("more than 100000 values",), place="6:10"),
    Bad("deep aliases", DEEP_ALIASES, ("nested more than 50 deep",), place="50:12"),
    Bad("deep nesting", f"{START}faults: {'[' * 49}§{'[' * 100_000}", ("nested more than 50 deep",)),
    Bad("more than 4 MiB", "#" * (4 << 20) + "\n", ("larger than 4 MiB",)),
    # ---- keys
    Bad("unknown key", after("§topologie: {}"), ("unknown key 'topologie'", "did you mean 'topology'?")),
    Bad("unknown key further in", after("config: {§max_num_seq: 3}"), ("config: ", "did you mean 'max_num_seqs'?")),
    Bad(
        "a key of vLLM's command line",
        after("topology: {§data-parallel-size: 2}"),
        ("did you mean 'data_parallel_size'?",),
    ),
    Bad("a key in the wrong section", after("§tensor_parallel_size: 2"), ("it belongs under topology",)),
    Bad(
        "unknown key of a fault",
        fault("kind: skip, rank: 1, §skip: 1, at: {site: x, ordinal: 0}"),
        ("faults[0]: unknown key 'skip'", "kind, rank, at"),
    ),
    Bad(
        "a service under a separate key",
        fault("kind: die, §service: coordinator, at: {site: x, ordinal: 0}"),
        ("faults[0]: unknown key 'service'; a service goes under rank",),
    ),
    Bad("missing keys", "§description: no name, no workload\n", ("'name' is missing", "expected name, workload"), 2),
    Bad(
        "missing key of a request",
        "name: bad\nworkload:\n  requests:\n  - §{prompt_tokens: 4}\n",
        ("workload.requests[0]: the key 'output_tokens' is missing",),
    ),
    # ---- values
    Bad("text for a number", after("topology: {data_parallel_size: §four}"), ("whole number, got the text 'four'",)),
    Bad("a quoted number", after('topology: {data_parallel_size: §"4"}'), ("leave out the quotes",)),
    Bad("a fraction", after("topology: {data_parallel_size: §2.5}"), ("whole number, got the number 2.5",)),
    Bad("an octal number", after("topology: {data_parallel_size: §010}"), ("'010'", "octal")),
    Bad("a truth value for a number", after("topology: {data_parallel_size: §on}"), ("YAML reads on as true",)),
    Bad("a number for a truth value", after("config: {enable_dbo: §1}"), ("true or false, got the number 1",)),
    Bad("not a number", synthetic("requests: 1, rate: §.nan"), ("expected a number, got the text '.nan'", "finite")),
    Bad("a truth value for text", after("description: §yes"), ("put quotes around it", "YAML reads yes as true")),
    Bad("nothing for a section", after("§limits:"), ("expected a mapping", "got nothing")),
    Bad("a mapping for a list", after("faults: §{kind: skip}"), ("expected a list", "got a mapping")),
    Bad("a list for a mapping", after("topology:\n  §- 4"), ("expected a mapping", "got a list")),
    Bad("unknown mode", after("config: {cudagraph_mode: §full}"), ("PIECEWISE", "did you mean 'FULL'?")),
    Bad("a duration without unit", after("limits: {stall: §5}"), ("limits.stall", "add a unit, e.g. 20ms")),
    Bad("an unknown unit", after("limits: {stall: §5 sec}"), ("unknown unit 'sec'", "did you mean 5s?")),
    Bad("part of a nanosecond", after("limits: {stall: §0.5ns}"), ("whole number of nanoseconds",)),
    Bad("a name with spaces", f"name: §my scenario\n{WORK}", ("characters that are not allowed", "letters, digits")),
    Bad(
        "too many tokens",
        one("prompt_tokens: §99999999, output_tokens: 1"),
        ("99999999 is too large", "at most 16777216"),
    ),
    Bad("no tokens", one("prompt_tokens: 1, output_tokens: §0"), ("0 is too small", "at least 1")),
    Bad("too many requests", synthetic("requests: §2000000"), ("2000000 is too large", "at most 1000000")),
    Bad("no requests", "name: bad\nworkload: {requests: §[]}\n", ("at least 1 item",)),
    # ---- names that are not registered
    Bad(
        "unknown protocol",
        after("protocol: §dp_bacht"),
        ("no protocol is registered as 'dp_bacht'", "did you mean 'dp_batch'?"),
    ),
    Bad("unknown form", after("protocol: {form: §0.15}"), ("no form '0.15'", "did you mean '0.14'?")),
    Bad("unknown variant", after("protocol: {variant: §M-DP-999}"), ("no variant is registered as 'M-DP-999'",)),
    # ---- contradictions
    Bad(
        "rank outside the world",
        fault("kind: skip, rank: §7, at: {site: dp.agree, ordinal: 5}"),
        ("faults[0].rank: rank 7: the topology has 4 ranks, 0 to 3",),
    ),
    Bad(
        "culprit outside the world",
        after("expect: {culprit: {rank: §1, step: 0}}"),
        ("rank 1: the topology has one rank, 0",),
    ),
    Bad(
        "root outside the world",
        fault("kind: alter, rank: 1, at: {site: x, ordinal: 0}, change: {root: §4}"),
        ("faults[0].change.root: rank 4",),
    ),
    Bad(
        "unknown kind of fault",
        fault("kind: §skipp, rank: 1, at: {site: x, ordinal: 0}"),
        ("unknown kind 'skipp'", "skip, repeat, alter, insert, die, raise, hang, kill", "did you mean 'skip'?"),
    ),
    Bad("fault without kind", f"{RANKS}faults:\n  - §{{rank: 1}}\n", ("the key 'kind' is missing",)),
    Bad(
        "two changes",
        fault("kind: alter, rank: 1, at: {site: x, ordinal: 0}, change: §{root: 1, count: 2}"),
        ("exactly one of op, count, dtype, root", "count, root"),
    ),
    Bad(
        "half an address", fault("kind: skip, rank: 1, at: §{site: dp.agree}"), ("a fault happens once", "add ordinal")
    ),
    Bad(
        "a fault at a thread",
        fault("kind: die, rank: 1, at: §{thread: ubatch.1}"),
        ("a fault happens at an op", "add site and ordinal"),
    ),
    Bad(
        "two halves of addresses",
        fault("kind: skip, rank: 1, at: §{site: dp.agree, seq: 1}"),
        ("site and ordinal, or communicator and seq", "seq, site"),
    ),
    Bad(
        "unknown communicator",
        fault("kind: skip, rank: 1, at: {communicator: §dp_gpu, seq: 1}"),
        ("no communicator 'dp_gpu'", "dp, dp_cpu, ep", "did you mean 'dp_cpu'?"),
    ),
    Bad(
        "a service that there is not",
        after("protocol: startup\ndelays: [{rank: §engine.7, by: 1ms}]"),
        ("delays[0].rank: no service 'engine.7'", "one of: frontend, engine.0", "did you mean 'engine.0'?"),
    ),
    Bad(
        "a service of a protocol that has none",
        fault("kind: die, rank: §coordinator, at: {site: dp.agree, ordinal: 0}"),
        ("no service 'coordinator'; expected a rank: dp_batch has no services",),
    ),
    Bad(
        "a culprit that does not exist",
        after("protocol: startup\nexpect: {explored: {class: HANG, culprit: {rank: §engine}}}"),
        ("expect.explored.culprit.rank: no service 'engine'", "did you mean 'engine.0'?"),
    ),
    Bad(
        "another program on a node that there is not",
        after("protocol: startup\nports: [{port: 29550, node: 0}, {port: 29550, node: §1}]"),
        ("ports[1].node: node 1: this world has one node, 0",),
    ),
    Bad(
        "two faults at one op",
        fault("kind: die, rank: 1, at: {site: x, ordinal: 0}")
        + "  - §{kind: skip, rank: 1, at: {site: x, ordinal: 0}}\n",
        ("a second fault at x[0] of rank 1, as faults[0]",),
    ),
    Bad(
        "two faults at one op of a thread",
        fault("kind: die, rank: 1, at: {site: x, ordinal: 0}")
        + "  - §{kind: skip, rank: 1, at: {site: x, ordinal: 0, thread: main}}\n",
        ("a second fault at x[0] of rank 1, as faults[0]",),
    ),
    Bad(
        "half an address of a kill",
        fault("kind: kill, rank: 1, at: §{site: dp.agree}"),
        ("faults[0].at: a fault happens once", "add ordinal"),
    ),
    Bad(
        "a kill at a time without unit",
        fault("kind: kill, rank: 1, time: §3"),
        ("faults[0].time: the duration 3 has no unit",),
    ),
    Bad(
        "unknown key of a kill",
        fault("kind: kill, rank: 1, §lose_mail: true"),
        ("faults[0]: unknown key 'lose_mail'", "partial, loses_mail", "did you mean 'loses_mail'?"),
    ),
    Bad(
        "a rank killed twice",
        fault("kind: kill, rank: 1") + "  - §{kind: kill, rank: 1, time: 3ms}\n",
        ("faults[1]: a second kill of rank 1, as faults[0]", "one a rank"),
    ),
    Bad(
        "a killed rank outside the world",
        fault("kind: kill, rank: §4"),
        ("faults[0].rank: rank 4: the topology has 4 ranks, 0 to 3",),
    ),
    Bad("no slot at all", after("limits: {residency: §0}"), ("limits.residency: 0 is too small", "at least 1")),
    Bad(
        "an unknown limit",
        after("limits: {§residence: 1}"),
        ("limits: unknown key 'residence'", "launch_queue", "did you mean 'residency'?"),
    ),
    Bad(
        "a limit in the wrong place",
        after("§launch_queue: 1024"),
        ("unknown key 'launch_queue' here", "it belongs under limits"),
    ),
    Bad(
        "a number for a limit that is on or off",
        after("limits: {alloc_synchronises: §1}"),
        ("limits.alloc_synchronises: expected true or false, got the number 1",),
    ),
    Bad(
        "too many ranks",
        after("topology: §{data_parallel_size: 4096, tensor_parallel_size: 2}"),
        ("8192 ranks", "at most 4096"),
    ),
    Bad(
        "seats without tokens",
        after("config:\n  max_num_seqs: §9000"),
        ("cannot hold one token of each of max_num_seqs=9000",),
    ),
    Bad(
        "two sources of requests",
        after("  azure_csv: §{file: x.csv}"),
        ("exactly one of requests, synthetic, azure_csv", "requests and azure_csv"),
    ),
    Bad("no source of requests", "name: bad\nworkload: §{limit: 3}\n", ("exactly one of", "given: none")),
    Bad(
        "abort before arrival",
        one("arrival: 20ms, prompt_tokens: 1, output_tokens: 1, abort: §20ms"),
        ("the abort at 20ms is not after the arrival at 20ms",),
    ),
    Bad(
        "a stop token after the end",
        one("prompt_tokens: 1, output_tokens: 2, stop_after: §3"),
        ("3: it ends after 2 output tokens; expected at most 2",),
    ),
    Bad(
        "an adapter without LoRA",
        one("prompt_tokens: 1, output_tokens: 1, lora: §a"),
        ("needs config.enable_lora: true",),
    ),
    Bad("a class that nothing has", after("expect: {class: §HANGS}"), ("no finding has", "did you mean 'HANG'")),
    Bad("a class although it holds", after("expect: {verdict: held, class: §HANG}"), ("held leaves no class to find",)),
    Bad("a stall after the deadline", after("limits: {stall: §1h}"), ("never be seen before the deadline of 10m",)),
    # ---- rules of a release that the configuration breaks
    Bad("more engines than there are", after("config: {data_parallel_size_local: §2}"), ("2; expected at most", "1")),
    Bad(
        "no such all-to-all", after("config: {all2all_backend: §deepep_low}"), ("expected one of", "deepep_low_latency")
    ),
    Bad(
        "a rule of another release",
        after('config: {enable_dbo: true, dbo_decode_token_threshold: §1, parallel_rules: "0.33"}'),
        ("config.dbo_decode_token_threshold: 1; expected at least 2, the number of microbatches",),
    ),
    Bad(
        "a field of another release",
        after("config: {numa_bind: §true}"),
        ("config.numa_bind: True; expected its default", "no such field"),
    ),
    Bad(
        "a nested field",
        after("config: {eplb_config: {num_redundant_experts: §2}}"),
        ("config.eplb_config.num_redundant_experts: 2; expected 0, as enable_eplb is False",),
    ),
    Bad("a size that does not fit", after("topology: {decode_context_parallel_size: §2}"), ("a divisor of 1",)),
    # ---- settings of single ranks
    Bad(
        "settings of a rank outside the world", f"{RANKS}config_by_rank:\n  7: §{{}}\n", ("rank 7: the topology has 4",)
    ),
    Bad("a misspelt rank", f"{RANKS}config_by_rank:\n  §one: {{}}\n", ("expected a whole number, got the text 'one'",)),
    Bad(
        "a rank with a leading zero",
        f"{RANKS}config_by_rank:\n  1: {{}}\n  §01: {{}}\n",
        ("expected a whole number, got the text '01'", "write it in decimal, without leading zeros"),
    ),
    Bad(
        "a misspelt setting of a rank",
        f"{RANKS}config_by_rank:\n  1: {{§enable_dbx: true}}\n",
        ("config_by_rank.1: unknown key 'enable_dbx'; did you mean 'enable_dbo'?",),
    ),
    Bad(
        "a setting that does not fit those of all",
        f"{RANKS}config_by_rank:\n  1: §{{max_num_batched_tokens: 4}}\n",
        ("config_by_rank.1: max_num_batched_tokens=4 cannot hold", "max_num_seqs=128"),
    ),
    Bad(
        "a rule that one rank breaks",
        f"{RANKS}config_by_rank:\n  1: {{enable_eplb: true, enable_expert_parallel: §false}}\n",
        ("config_by_rank.1.enable_expert_parallel: False; expected True",),
    ),
    # ---- messages
    Bad(
        "a message to a rank that is not there",
        f"{RANKS}messages:\n  - {{to: §7, mailbox: inbox, content: 1}}\n",
        ("messages[0].to: rank 7: the topology has 4 ranks, 0 to 3",),
    ),
    Bad(
        "a message to a service that is not there",
        f"{RANKS}protocol: startup\nmessages:\n  - {{to: §engine.7, mailbox: inbox, content: 1}}\n",
        ("messages[0].to: no service 'engine.7'; expected a rank, or one of: frontend", "did you mean 'engine.3'?"),
    ),
    Bad(
        "a message sent at a service that is not there",
        f"{RANKS}messages:\n  - {{to: 0, mailbox: inbox, content: 1, after: {{rank: §client, site: a, ordinal: 0}}}}\n",
        ("messages[0].after.rank: no service 'client'; expected a rank: dp_batch has no services",),
    ),
    Bad(
        "a message with a mapping",
        f"{RANKS}messages:\n  - {{to: 0, mailbox: inbox, content: §{{a: 1}}}}\n",
        ("messages[0].content: expected numbers, texts, truth values and lists of these, got {'a': 1}",),
    ),
    Bad(
        "a message without content",
        f"{RANKS}messages:\n  - {{to: 0, mailbox: inbox, content: §null}}\n",
        ("messages[0].content: nothing is what a poll gives for an empty mailbox",),
    ),
    Bad(
        "a message at no op",
        f"{RANKS}messages:\n  - {{to: 0, mailbox: inbox, content: 1, after: §{{rank: 1}}}}\n",
        ("messages[0].after: the key 'ordinal' is missing; expected rank, site, ordinal",),
        2,
    ),
    # ---- several problems
    Bad(
        "three problems",
        "name: §a b\nworkload: {requests: [{prompt_tokens: 0, output_tokens: 1}]}\ndelays: [{rank: 0, by: 3}]\n",
        ("not allowed",),
        3,
    ),
    Bad(
        "fourteen problems",
        f"{START}config: {{§{', '.join(f'x{i}: 0' for i in range(14))}}}\n",
        ("unknown key 'x0'",),
        11,
    ),
]


def shown(text: str | bytes) -> str:
    """Returns the text of a file for the table, shortened if it is long."""
    lines = text.decode("latin-1") if isinstance(text, bytes) else text
    lines = lines.removeprefix(START)
    lines = lines if len(lines) <= 120 else f"{lines[:100]} ..."
    return lines.encode("unicode_escape").decode().replace("\\n", " ⏎ ").replace("|", "\\|")


def table() -> str:
    """Returns a Markdown table: mistake, file (without its first four lines if they are right), message."""
    rows = ["| what | file | message |", "|---|---|---|"]
    for bad in BAD_FILES:
        lines = "<br>".join(map(output, bad.message().splitlines()))
        file = f"`{shown(bad.text)}`" if bad.text else ""
        rows.append(f"| {bad.what} | {file} | {lines} |")
    return "\n".join(rows)


def output(line: str) -> str:
    """Formats a line of output as inline code. Double backticks and spaces allow backticks in the line."""
    return (f"`` {line} ``" if "`" in line else f"`{line}`").replace("|", "\\|")


def page() -> str:
    """Returns the text of docs/bad-scenarios.md."""
    first = START.rstrip().replace("\n", "\n    ")
    return (
        "# What mistakes in a scenario print\n\n"
        "For a mistake in a scenario file, dpsim prints one line and exits with 2. The line names the file, the line, "
        "the column, the mistake and the expected value. This page shows the line for many mistakes. "
        "`python -m tests.vllm.params.bad_files > docs/bad-scenarios.md` writes it, and a test compares it with the "
        "code.\n\n"
        f"The table omits these lines at the beginning of each file:\n\n    {first}\n\n{table()}\n"
    )


if __name__ == "__main__":
    print(page(), end="")
