"""Compression: each method turns the fp16 package into a smaller package under the same
contract.
"""
