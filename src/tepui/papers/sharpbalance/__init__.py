"""Figures and tables of SharpBalance.

References:
    Lu et al., Sharpness-diversity tradeoff: improving flat ensembles with SharpBalance,
    NeurIPS 2024.
"""
