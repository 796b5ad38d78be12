"""Export of a bundle to CTranslate2, without torch."""
