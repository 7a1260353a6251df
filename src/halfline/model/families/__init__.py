"""One module per model family: how its files, Hugging Face and GGUF, describe themselves.

`family.py` says what a family has to answer, `decoder.py` what all of them share, `table.py` lists them. To add one:
write its module, list it, and give tests/torch/model its tiny random model.
"""
