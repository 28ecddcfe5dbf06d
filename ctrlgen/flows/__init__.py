"""What lies above a single step: whole generations, and what needs more than one pass.

budget.py      how many tokens a constraint needs
draft.py       a free draft first, then the constraint (draft_text.py, draft_score.py)
generate.py    prompts in, results out
prompts.py     prompts of any kind as one padded batch
results.py     ids back to texts, values and traces
retrieve.py    prompts in, items of a catalogue out
scoring.py     log-probabilities for the rows of a search
streaming.py   text as it comes
"""
