"""One engine step of everything put together: which form of each piece, and which of them go together.

pieces.py    the forms of each piece, by name
rules.py     what the engine refuses to put together, each rule with a name
stacks.py    the two named stacks, and the way from a stack, swaps and a configuration to the pieces

It stands above all protocols, which do not know one another. Sources: specification chapter 10, above all 10.0.
"""
