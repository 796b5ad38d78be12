"""A trained model as one folder, verified before anything of it is loaded. No pickle, and no torch."""

from dragoman.bundle.card import Card, CardData, CardScore
from dragoman.bundle.info import BundleInfo, Export, Proof
from dragoman.bundle.reading import Bundle, demo_folder, open_bundle
from dragoman.bundle.writing import write_bundle

__all__ = [
    "Bundle",
    "BundleInfo",
    "Card",
    "CardData",
    "CardScore",
    "Export",
    "Proof",
    "demo_folder",
    "open_bundle",
    "write_bundle",
]
