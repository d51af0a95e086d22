"""Figures and tables of Scalable Ensemble Diversification.

References:
    Rubinstein, Scimeca, Teney and Oh (2024), Scalable Ensemble Diversification for OOD
    Generalization and Detection.
"""
