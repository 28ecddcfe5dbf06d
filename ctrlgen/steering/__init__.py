"""What is added to the logits: more of what is wanted, one step at a time.

``ctrlgen.steering.protocol`` says what a steerer is; each family of methods has a module of its own.
"""
