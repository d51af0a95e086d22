"""Tables and the figure of the study of six regularization controls.

References:
    Understanding Deep Learning Requires Rethinking Sharpness, under review for the
    Workshop on High-dimensional Learning Dynamics, 2025.
"""
