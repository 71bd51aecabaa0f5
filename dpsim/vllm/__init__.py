"""The model of one inference engine, vLLM: the protocols between its ranks, its configuration and its known bugs.

A protocol is the coordination of ranks in one part of the engine, such as the batch agreement of data-parallel ranks.
dpsim runs each protocol as a program, in the simulation or on GPUs. The packages:

    config/          the engine's configuration, in vLLM's names, and the rules of its releases
    graphs/          CUDA graphs: pure functions that compute sizes and select the graph of a batch
    capture/         the capture and replay of CUDA graphs: wrappers, the session, offloaded weights
    model/           the stand-in for the language model: integer arithmetic with tokens that are known in advance
    data_parallel/   the agreement of data-parallel ranks on token counts, graph mode and microbatches of a step
    overlap/         data-parallel steps whose microbatches run in threads
    pipeline/        pipeline stages: hidden states go forward, sampled tokens go back
    engine/          data-parallel engines that step together, with their coordinator and front ends
    startup/         the start of front ends, coordinator, engines and workers
    whole/           whole engines, which combine the parts above in one step
    params/          the sections of a scenario of engines, and the arguments of a program
    releases/        each release and source page (a published file of vLLM) as a list of the classes that model it
    programs/        the programs by name: each combines the classes of a release, and refuses unused settings
    from_vllm/       the translation of a vLLM command line to a scenario
    keys.py          the keys of the specification, with their meanings
    museum/          known bugs and planted mistakes, each with a healthy twin

Protocols never import each other, and their classes refer to no release. The framework imports nothing from this
package, and finds it by entry points.
"""
