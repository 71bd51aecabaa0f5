"""One engine step of everything put together: which form of each piece, which of them go together, and the programs
`whole_engine_dp`, `whole_engine` and `whole_engine_watched`.

pieces.py            the forms of each piece, by name
rules.py             what the engine refuses to put together, each rule with a name
stacks.py            the two named stacks, and the way from a stack, swaps and a configuration to the pieces
batch_queue.py       the loop of an engine with a batch queue, and what it asks of a scheduler and of a worker
rank_engine.py       an engine that is its only worker: the scheduler of a rank, and a data-parallel step
rank_program.py      the program whole_engine_dp
layout.py            who takes part where cores are processes of their own
calls.py             calls of an engine to its workers, as messages
pipeline_engine.py   the scheduler of an engine with a pipeline
stage_agreement.py   what workers of a stage agree on with their peers of other replicas
stage_worker.py      a worker of an engine with a pipeline
split_stage.py       the same with microbatches, which no engine has
program.py           the program whole_engine
watched.py           the program whole_engine_watched: everybody learns of a death, an exception, a shutdown

It stands above all protocols, which do not know one another. Sources: specification chapter 10, above all 10.0.
"""
