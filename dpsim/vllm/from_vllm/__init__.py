"""Translates a command line of vLLM (`vllm serve ...`) to a dpsim scenario of the same deployment.

    translated = from_vllm("vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel --port 8000")
    translated.scenario.topology.data_parallel_size      # 8
    translated.text()                                    # YAML; its head lists the ignored flags with reasons

    shell.py       splits a script into commands and words, as a shell does
    flags.py       the table of vLLM's flags, with the use of each
    ignored.py     the flags that have no effect on a scenario, by reason
    nested.py      the keys of flags whose values are JSON
    environment.py environment variables before the command
    read.py        parses the flags of a command and their values
    drafts.py      speculative decoding: --speculative-config
    graphs.py      CUDA graphs: --compilation-config, -O
    rules.py       the rules by which vLLM itself refuses a command
    nodes.py       the commands of several nodes of one deployment
    by_rank.py     settings in which nodes differ and that vLLM does not compare
    workload.py    a small workload that exercises a deployment
    worlds.py      the programs that can run a deployment
    translate.py   combines these steps
    command.py     `dpsim scenario from-vllm`

Guarantees: the translation refuses unknown flags by name, reports each ignored flag with the reason, and drops no flag
silently. It never prints values of ignored flags, which may be secret. Its result depends only on the text: a scenario
or a `ScenarioError`.

Sources: vLLM's engine arguments and the arguments of its API server; specification chapters 3.1, 5.11 and 8.
"""
