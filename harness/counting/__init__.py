"""Exact counts instead of timings: what a program asks for, found by executing it under instrumentation.

eager          PyTorch code, on real or fake CPU tensors: FLOPs, bytes touched, live and peak storage
predict        the same for an implementation on a problem, without allocating anything
interpreter    Triton kernels in Triton's interpreter (a process of its own): requests, FLOPs, exponentials
machine_code   Triton kernels compiled ahead of time for a GPU that need not be there
certificates   counts at several sizes -> the exact polynomial, confirmed on held-out sizes
"""
