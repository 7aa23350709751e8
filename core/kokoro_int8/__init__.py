"""Kokoro-82M from package registries: the published network on 8-bit grids, decoded once into the
user's cache folder.
"""
