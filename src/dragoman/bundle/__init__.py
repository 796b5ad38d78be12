"""Bundles: folders with a trained model. Files are verified before loading, without pickle or torch."""

from dragoman.bundle.card import Card, CardData, CardParent, CardScore
from dragoman.bundle.info import BundleInfo, Export, ExportCheck
from dragoman.bundle.reading import (
    Bundle,
    demo_folder,
    is_demo,
    is_model_folder,
    open_bundle,
    refuse_demo,
    unfinished_note,
)
from dragoman.bundle.writing import write_bundle

__all__ = [
    "Bundle", "BundleInfo", "Card", "CardData", "CardParent", "CardScore", "Export", "ExportCheck",
    "demo_folder", "is_demo", "is_model_folder", "open_bundle", "refuse_demo", "unfinished_note", "write_bundle",
]  # fmt: skip
