"""An installed vLLM, played by a stand-in."""
