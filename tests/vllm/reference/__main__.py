"""`python -m tests.vllm.reference` writes the generated pages of docs/."""

from tests import ROOT
from tests.vllm.reference.pages import PAGES

for name, page in PAGES.items():
    (ROOT / name).write_text(page())
