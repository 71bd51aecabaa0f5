"""`python -m dpsim.campaign.assumptions > docs/assumptions.md` writes the document from the table."""

from dpsim.campaign.assumptions.table import document

print(document(), end="")
