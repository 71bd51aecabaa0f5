"""One engine step of everything put together: the parts of whole engines, and the rules of their combination.

rules.py             the combinations that the engine refuses, each rule with a name
batch_queue.py       the loop of an engine with a batch queue, and its interfaces of a scheduler and of a worker
rank_engine.py       an engine that is its only worker: the scheduler of a rank, and a data-parallel step
calls.py             calls of an engine to its workers, as messages
pipeline_engine.py   the scheduler of an engine with a pipeline
stage_agreement.py   the agreement of a stage's workers with their peers of other replicas
stage_worker.py      a worker of an engine with a pipeline
split_stage.py       the same with microbatches, which no engine has
watched.py           the same, and all learn of a death, an exception, a shutdown

It stands above all protocols, which do not know one another. The programs are `dpsim.vllm.programs.whole_engine` and
`dpsim.vllm.programs.whole_engine_dp`. Sources: specification chapter 10, above all 10.0.
"""
