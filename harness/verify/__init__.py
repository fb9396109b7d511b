"""Every claim of the reference document as an executable check, with a number, a bound and a verdict.

claim    what a claim is, and the registry: `@claim(section=…, text=…)` over a function that computes a number
claims   one file per section of the document
checking   runs claims with fixed seeds; a claim that raises fails with the reason
"""
