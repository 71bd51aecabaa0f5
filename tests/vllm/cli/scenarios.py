"""A scenario of an engine for the tests of commands: three data-parallel ranks, six steps."""

HEALTHY = """
name: three
topology: {data_parallel_size: 3}
config: {async_scheduling: true}
workload:
  requests:
    - {arrival: 0ms, prompt_tokens: 5, output_tokens: 6}
    - {arrival: 0ms, prompt_tokens: 3, output_tokens: 6}
    - {arrival: 0ms, prompt_tokens: 4, output_tokens: 6}
"""
