"""Trained weights in the suite's own encoder, and the queries, keys and values that they make of real text.

minilm       all-MiniLM-L6-v2, a small encoder of the BERT kind, from the optional extra `weights`
activations  its Q, K and V of real text, layer by layer: the input distribution `activations`
"""
