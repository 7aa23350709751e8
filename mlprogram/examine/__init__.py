"""Examine an ML program without running it: what it holds, what it costs, what the Neural Engine would take of it.

python -m mlprogram describe KokoroVocoder.mlpackage
python -m mlprogram ane KokoroVocoder.mlpackage --chip m1
"""
