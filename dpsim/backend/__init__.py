"""What every backend shares: addresses, records, injections, and the public half of each class of the contract."""
