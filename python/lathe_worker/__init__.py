"""Runs the frameworks that `lathe bench` compares with, one process each."""
