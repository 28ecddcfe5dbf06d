"""What lies above a single step: whole generations, and what needs more than one pass.

budget.py      how many tokens a constraint needs
generate.py    prompts in, results out
prompts.py     prompts of any kind as one padded batch
results.py     ids back to texts, values and traces
streaming.py   text as it comes
"""
