"""TVM: the chain as libraries of machine code."""
