"""Models trained elsewhere: Hugging Face's Marian folders and OPUS-MT packages, read without torch."""
