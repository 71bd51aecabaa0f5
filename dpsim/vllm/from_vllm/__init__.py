"""From a command line of vLLM to a scenario: `vllm serve ...` in, what its ranks agree on out.

    translated = from_vllm("vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel --port 8000")
    translated.scenario.topology.data_parallel_size      # 8
    translated.text()                                    # YAML; at its head, what was ignored and why

    shell.py       the words of a command as a shell sees them
    flags.py       the table: each flag of vLLM, and its use
    ignored.py     the flags that do not matter here, by reason
    nested.py      the keys of flags whose values are JSON
    environment.py assignments before the command
    read.py        the flags of a command and their values, each refused by name if it cannot be used
    drafts.py      the proposer of tokens: --speculative-config
    graphs.py      which CUDA graphs: --compilation-config, -O
    rules.py       refusals of vLLM itself
    nodes.py       the commands of several nodes, one deployment
    by_rank.py     settings of a node that differ, and that vLLM does not compare
    workload.py    a small workload that shows a deployment at work
    worlds.py      the protocols whose worlds can be made of a deployment
    translate.py   all of it, put together
    table.py       the table as a document
    command.py     `dpsim scenario from-vllm`

Guarantees: a translation refuses unknown flags by name, names ignored ones with the reason, and leaves nothing out
silently. Everything here is pure: text in, a scenario or a `ScenarioError` out. It never repeats values of ignored
flags, which may be secret.

Sources: vLLM's engine arguments and the arguments of its API server; specification chapters 3.1, 5.11 and 8.
"""
