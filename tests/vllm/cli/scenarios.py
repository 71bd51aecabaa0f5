"""A scenario of an engine that the tests of commands run: three data-parallel ranks and six steps."""

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
