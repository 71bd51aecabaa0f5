"""The workload of a scenario: requests, each with an arrival time, a prompt and a number of tokens to generate.

    model.py       the model of the scenario's section `workload`, with its three sources of requests
    requests.py    makes the list of requests from any source
    azure_csv.py   reads the source that is a file: the Azure LLM inference trace

The requests depend only on the section and on the file that it names, and are equal on every machine.
"""
