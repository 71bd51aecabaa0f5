"""Translates a command line of vLLM (`vllm serve ...`) to a dpsim scenario. It drops no flag silently, and prints no
ignored value, which may be secret. Its result, a scenario or a `ScenarioError`, depends only on the text.

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
    workload.py    a small workload that exercises a deployment
    worlds.py      the programs that can run a deployment
    translate.py   combines these steps
    command.py     `dpsim scenario from-vllm`
"""
