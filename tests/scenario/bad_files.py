"""Scenario files with mistakes, and the error messages that dpsim prints for them.

Each entry of `BAD_FILES` has the text of a file, with a § before the mistake, and fragments of the error message. The
files use the protocol `t_served` of `tests/protocols.py`. `tests/vllm/params/bad_files.py` has files with the sections
of vLLM.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.scenario import ScenarioError, parse_scenario
from tests import protocols  # noqa: F401  # registers t_served

START = "name: bad\nprotocol:\n  name: t_served\n  params: {ranks: 4}\n"
"""The first four lines of a file. The mistake begins in line 5."""


class Bad(NamedTuple):
    """A file with a mistake. In `marked`, a § precedes the first mistake, whose line and column the message must name.
    `place` is for files without a mark. `says`: fragments of the first message, in order. `problems`: the number of
    lines of the message.
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
        """Returns the begin of the message: the file, the line and the column."""
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
    """Returns a file that is correct up to its fifth line."""
    return f"{START}{lines}\n"


def fault(fields: str) -> str:
    """Returns a file with a fault in its sixth line."""
    return f"{START}faults:\n  - {{{fields}}}\n"


BILLION_LAUGHS = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
TEXT_BOMB = f"a: &a '{'x' * (1 << 20)}'\nb: &b [{', '.join(['*a'] * 80)}]\nc: [{', '.join(['*b'] * 80)}]\n"
FLAT_BOMB = f"a: &a '{'x' * (3 << 20)}'\nb: [{', '.join(['*a'] * 1_000)}]\n"
DEEP_ALIASES = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 60))

BAD_FILES = [
    # ---- not a YAML file
    Bad("empty file", "§", ("empty file", "expected a scenario")),
    Bad("only comments", "§# nothing\n\n", ("empty file",)),
    Bad("only a document start", "§---\n", ("empty file",)),
    Bad("a list at the top", "§- name: bad\n", ("a list at the top", "the keys of a scenario: name, ")),
    Bad("text at the top", "§name bad\n", ("a single value at the top",)),
    Bad("not YAML: unclosed bracket", f"{START}faults: [\n§", ("not YAML", "expected a value, or a closing bracket")),
    Bad("not YAML: unclosed quote", f"{START}description: 'oh\n§", ("not YAML", "line 5", "closing quote")),
    Bad("not YAML: colon in text", "name: bad§: very\n", ("not YAML", "quotes around text with a colon")),
    Bad("not YAML: indentation", after("   §protocol: 1"), ("not YAML",)),
    Bad("not YAML: reserved sign", after("description: §@home"), ("not YAML", "needs quotes")),
    Bad("a tab as indentation", "name: bad\nprotocol:\n§\tname: t_served\n", ("a tab", "expected spaces")),
    Bad("not UTF-8", b"name: bad\ndescription: caf\xe9\n", ("byte 0xe9 is not UTF-8",), place="2:17"),
    Bad("UTF-16", "name: bad\n".encode("utf-16"), ("not UTF-8",), place="1:1"),
    Bad("a control character", "name: bad\ndescription: a§\x07b\n", ("'\\x07'", "printable")),
    Bad("two documents", after("§---\nname: two"), ("second document", "one scenario a file")),
    # ---- YAML that no scenario needs
    Bad("duplicate key", after("§name: again"), ("'name' occurs twice", "first in line 1")),
    Bad("duplicate key in braces", fault("kind: die, rank: 1, §rank: 2"), ("'rank' occurs twice", "line 6")),
    Bad(
        "a Python object",
        after("faults: §!!python/object/apply:os.system [ls]"),
        ("tag", "python/object", "without a tag"),
    ),
    Bad("an application's tag", after("description: §!secret x"), ("the tag '!secret'",)),
    Bad("a merge key", after("limits: &l {}\nexpect: {§<<: *l}"), ("merge keys", "written out")),
    Bad("a list as a key", after("? §[a, b]\n: 1"), ("a key that is no word",)),
    Bad("an unknown alias", after("faults: §*nobody"), ("alias",)),
    Bad("an alias in itself", after("faults: &a [§*a]"), ("contains itself",)),
    Bad("an alias bomb", BILLION_LAUGHS, ("more than 100000 values",), place="6:10"),
    Bad(
        "a bomb of one text",
        TEXT_BOMB,
        ("more than 100000 values", "64 characters of a text count as one"),
        place="2:28",
    ),
    Bad("a bomb of one text, flat", FLAT_BOMB, ("more than 100000 values",), place="2:9"),
    Bad("deep aliases", DEEP_ALIASES, ("nested more than 50 deep",), place="50:12"),
    Bad("deep nesting", f"{START}faults: {'[' * 49}§{'[' * 100_000}", ("nested more than 50 deep",)),
    Bad("more than 4 MiB", "#" * (4 << 20) + "\n", ("larger than 4 MiB",)),
    # ---- keys
    Bad("unknown key", after("§fault: []"), ("unknown key 'fault'", "did you mean 'faults'?")),
    Bad("unknown key further in", after("limits: {§residence: 3}"), ("limits: ", "did you mean 'residency'?")),
    Bad(
        "unknown key of a fault",
        fault("kind: skip, rank: 1, §skip: 1, at: {site: x, ordinal: 0}"),
        ("faults[0]: unknown key 'skip'", "kind, rank, at"),
    ),
    Bad(
        "a service under another key",
        fault("kind: die, §service: coordinator, at: {site: x, ordinal: 0}"),
        ("faults[0]: unknown key 'service'; a service goes under rank",),
    ),
    Bad("missing keys", "§description: no name\nprotocol: t_served\n", ("'name' is missing", "expected name, ")),
    # ---- values
    Bad("text for a number", after("limits: {residency: §four}"), ("whole number, got the text 'four'",)),
    Bad("a quoted number", after('limits: {residency: §"4"}'), ("leave out the quotes",)),
    Bad("a fraction", after("limits: {residency: §2.5}"), ("whole number, got the number 2.5",)),
    Bad("an octal number", after("limits: {residency: §010}"), ("'010'", "octal")),
    Bad("a number for a truth value", after("limits: {lazy_communicators: §1}"), ("true or false, got the number 1",)),
    Bad("a truth value for text", after("description: §yes"), ("put quotes around it", "YAML reads yes as true")),
    Bad("nothing for a section", after("§limits:"), ("expected a mapping", "got nothing")),
    Bad("a mapping for a list", after("faults: §{kind: skip}"), ("expected a list", "got a mapping")),
    Bad("a list for a mapping", after("limits:\n  §- 4"), ("expected a mapping", "got a list")),
    Bad("a duration without unit", after("limits: {stall: §5}"), ("limits.stall", "add a unit, e.g. 20ms")),
    Bad("an unknown unit", after("limits: {stall: §5 sec}"), ("unknown unit 'sec'", "did you mean 5s?")),
    Bad("part of a nanosecond", after("limits: {stall: §0.5ns}"), ("whole number of nanoseconds",)),
    Bad(
        "a name with spaces",
        "name: §my scenario\nprotocol: t_served\n",
        ("characters that are not allowed", "letters, digits"),
    ),
    # ---- names that are not registered
    Bad(
        "unknown protocol",
        "name: bad\nprotocol: §t_servd\n",
        ("no protocol is registered as 't_servd'", "did you mean 't_served'?"),
    ),
    Bad(
        "unknown variant",
        "name: bad\nprotocol: {name: t_served, variant: §T-NONE}\n",
        ("no variant is registered as 'T-NONE'",),
    ),
    # ---- contradictions
    Bad(
        "rank outside the world",
        fault("kind: skip, rank: §7, at: {site: dp.agree, ordinal: 5}"),
        ("faults[0].rank: rank 7: the world has 4 ranks, 0 to 3",),
    ),
    Bad(
        "culprit outside the world",
        after("expect: {culprit: {rank: §4, step: 0}}"),
        ("rank 4: the world has 4 ranks, 0 to 3",),
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
    Bad("fault without kind", f"{START}faults:\n  - §{{rank: 1}}\n", ("the key 'kind' is missing",)),
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
        fault("kind: skip, rank: 1, at: {communicator: §world_gpu, seq: 1}"),
        ("no communicator 'world_gpu'", "world, world_cpu", "did you mean 'world_cpu'?"),
    ),
    Bad(
        "a service that there is not",
        after("delays: [{rank: §engine.7, by: 1ms}]"),
        (
            "delays[0].rank: no service 'engine.7'",
            "one of: frontend, coordinator, engine.0",
            "did you mean 'engine.3'?",
        ),
    ),
    Bad(
        "a service of a protocol that has none",
        "name: bad\nprotocol: t_agree\nfaults: [{kind: kill, rank: §coordinator}]\n",
        ("no service 'coordinator'; expected a rank: t_agree has no services",),
    ),
    Bad(
        "a culprit that is no actor",
        after("expect: {explored: {class: HANG, culprit: {rank: §engine}}}"),
        ("expect.explored.culprit.rank: no service 'engine'", "did you mean 'engine.3'?"),
    ),
    Bad(
        "another program on a node that there is not",
        after("ports: [{port: 29550, node: 0}, {port: 29550, node: §1}]"),
        ("ports[1].node: node 1: this world has one node, 0",),
    ),
    Bad(
        "an inserted call on a communicator that there is not",
        fault("kind: insert, rank: 1, at: {site: x, ordinal: 0}, call: {op: all_reduce, communicator: §worl}"),
        ("faults[0].call.communicator: no communicator 'worl'", "did you mean 'world'?"),
    ),
    Bad(
        "an inserted call of an unknown op",
        fault("kind: insert, rank: 1, at: {site: x, ordinal: 0}, call: {communicator: world_cpu, op: §all_reduc}"),
        ("faults[0].call.op: no op 'all_reduc'; expected one of all_reduce", "did you mean 'all_reduce'?"),
    ),
    Bad(
        "an inserted broadcast without root",
        fault("kind: insert, rank: 1, at: {site: x, ordinal: 0}, call: §{communicator: world_cpu, op: broadcast}"),
        ("faults[0].call: a call of broadcast needs root",),
    ),
    Bad(
        "an inserted broadcast from a root outside",
        fault(
            "kind: insert, rank: 1, at: {site: x, ordinal: 0}, call: {communicator: world_cpu, op: gather, root: §7}"
        ),
        ("faults[0].call.root: rank 7 is not in the communicator world_cpu",),
    ),
    Bad(
        "an inserted collective with a peer",
        fault(
            "kind: insert, rank: 1, at: {site: x, ordinal: 0}, call: {communicator: world_cpu, op: barrier, peer: §0}"
        ),
        ("faults[0].call.peer: a call of barrier has no peer; leave it out",),
    ),
    Bad(
        "an inserted send to itself",
        fault("kind: insert, rank: 1, at: {site: x, ordinal: 0}, call: {communicator: world_cpu, op: send, peer: §1}"),
        ("faults[0].call.peer: rank 1 cannot be its own peer",),
    ),
    Bad(
        "an inserted reduction that no library has",
        fault(
            "kind: insert, rank: 1, at: {site: x, ordinal: 0}, "
            "call: {communicator: world_cpu, op: all_reduce, dtype: §float8_e5m2}"
        ),
        ("faults[0].call.dtype: no library has the reduction sum of float8_e5m2",),
    ),
    Bad(
        "an inserted scatter that leaves a rest",
        fault(
            "kind: insert, rank: 1, at: {site: x, ordinal: 0}, "
            "call: {communicator: world_cpu, op: reduce_scatter, count: §5}"
        ),
        ("faults[0].call.count: 5 elements; reduce_scatter on world_cpu needs a multiple of its size",),
    ),
    Bad(
        "an inserted device call without stream",
        fault("kind: insert, rank: 1, at: {site: x, ordinal: 0}, call: §{communicator: world, op: all_reduce}"),
        ("faults[0].call: a call on world, a device communicator, needs stream",),
    ),
    Bad(
        "an inserted call with sizes for others",
        fault(
            "kind: insert, rank: 1, at: {site: x, ordinal: 0}, "
            "call: {communicator: world_cpu, op: all_gather, sizes: §[1, 2]}"
        ),
        ("faults[0].call.sizes: 2 sizes; all_gather on world_cpu needs 4",),
    ),
    Bad(
        "an inserted call whose sizes say another count",
        fault(
            "kind: insert, rank: 1, at: {site: x, ordinal: 0}, "
            "call: {communicator: world_cpu, op: all_gather, count: §1, sizes: [1, 2, 3, 4]}"
        ),
        ("faults[0].call.count: the sizes say 2 elements of this rank, and count says 1",),
    ),
    Bad(
        "a call inserted at a collective's second address",
        fault(
            "kind: insert, rank: 1, at: §{communicator: world_cpu, seq: 0}, "
            "call: {communicator: world_cpu, op: barrier}"
        ),
        ("faults[0].at: a call is inserted before an op of the rank: name site and ordinal",),
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
        ("faults[0].rank: rank 4: the world has 4 ranks, 0 to 3",),
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
        "name: bad\nprotocol: {name: t_served, params: {ranks: §8192}}\n",
        ("8192 is too large", "at most 64"),
    ),
    Bad("a class that nothing has", after("expect: {class: §HANGS}"), ("no finding has", "did you mean 'HANG'")),
    Bad("a class although it holds", after("expect: {verdict: held, class: §HANG}"), ("held leaves no class to find",)),
    Bad("a stall after the deadline", after("limits: {stall: §1h}"), ("never be seen before the deadline of 10m",)),
    # ---- settings of single ranks
    # ---- messages
    Bad(
        "a message to a rank that is not there",
        f"{START}messages:\n  - {{to: §7, mailbox: inbox, content: 1}}\n",
        ("messages[0].to: rank 7: the world has 4 ranks, 0 to 3",),
    ),
    Bad(
        "a message to a service that is not there",
        f"{START}messages:\n  - {{to: §engine.7, mailbox: inbox, content: 1}}\n",
        ("messages[0].to: no service 'engine.7'; expected a rank, or one of: frontend", "did you mean 'engine.3'?"),
    ),
    Bad(
        "a message sent at a service that is not there",
        "name: bad\nprotocol: t_agree\nmessages:\n"
        "  - {to: 0, mailbox: inbox, content: 1, after: {rank: §client, site: a, ordinal: 0}}\n",
        ("messages[0].after.rank: no service 'client'; expected a rank: t_agree has no services",),
    ),
    Bad(
        "a message with a mapping",
        f"{START}messages:\n  - {{to: 0, mailbox: inbox, content: §{{a: 1}}}}\n",
        ("messages[0].content: expected numbers, texts, truth values and lists of these, got {'a': 1}",),
    ),
    Bad(
        "a message without content",
        f"{START}messages:\n  - {{to: 0, mailbox: inbox, content: §null}}\n",
        ("messages[0].content: nothing is what a poll gives for an empty mailbox",),
    ),
    Bad(
        "a message at no op",
        f"{START}messages:\n  - {{to: 0, mailbox: inbox, content: 1, after: §{{rank: 1}}}}\n",
        ("messages[0].after: the key 'ordinal' is missing; expected rank, site, ordinal",),
        2,
    ),
    # ---- several problems
    Bad(
        "three problems",
        "name: §a b\nprotocol: {name: t_served, params: {ranks: 0}}\ndelays: [{rank: 0, by: 3}]\n",
        ("not allowed",),
        3,
    ),
    Bad(
        "fourteen problems",
        f"{START}limits: {{§{', '.join(f'x{i}: 0' for i in range(14))}}}\n",
        ("unknown key 'x0'",),
        11,
    ),
]
