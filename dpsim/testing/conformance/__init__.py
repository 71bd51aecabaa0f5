"""The program that makes every call of the contract."""
