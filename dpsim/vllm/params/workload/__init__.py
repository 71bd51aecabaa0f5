"""What a scenario gives its ranks to do: requests, each with an arrival, a prompt and a number of tokens to generate.

    model.py       the section `workload` of a scenario, and its three sources
    requests.py    the requests of any source
    azure_csv.py   the source that is a file: the Azure LLM inference trace

The requests are a pure function of the section and of the file that it names, on every machine.
"""
