"""The lab: claims of textbooks and papers, measured with the parts of this package."""
