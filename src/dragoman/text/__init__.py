"""Text cleaning, subword segmentation and vocabularies."""
