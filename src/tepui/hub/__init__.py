"""Ensembles on Hugging Face's hub: the folder of a saved ensemble and a model card.

Only what goes there or comes from there needs the extra ``hub``.
"""

from tepui.hub.card import model_card
from tepui.hub.pretrained import (
    from_pretrained,
    push_to_hub,
    save_pretrained,
)

__all__ = [
    "from_pretrained",
    "model_card",
    "push_to_hub",
    "save_pretrained",
]
