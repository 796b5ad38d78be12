"""Translation of texts, documents and files with a trained model."""
