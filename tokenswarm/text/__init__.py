"""Plain text to make prompts from: word lists (`*.txt`, words separated by spaces or line ends) and prose made of them.

The lists are the project's own choice of common words. They hold words that usual tokenizers agree on: an English word
with its space is one token, a Chinese word with its mark costs the same as its neighbours. So a prompt's length in
tokens follows from its length in words.
"""
