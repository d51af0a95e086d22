"""Tables of the study of six regularisation controls and the sharpness they lead to."""
