"""Whole engines: the loop of a data-parallel engine around a data-parallel step or a pipeline, and the allowed
combinations.

rules.py             the combinations that the engine refuses, each rule with a name
batch_queue.py       the loop of an engine with a batch queue, and its interfaces of a scheduler and of a worker
rank_engine.py       an engine whose core is its only worker, and runs a data-parallel step
calls.py             calls of an engine to its workers, as messages
pipeline_engine.py   the scheduler of an engine with a pipeline
stage_agreement.py   the agreement of a stage's workers with the same stage of other replicas
stage_worker.py      a worker of an engine with a pipeline
split_stage.py       such a worker with microbatches, a combination that no engine has
watched.py           cores and workers that end when one of them dies or shuts down

Source: specification chapter 10.
"""
