"""The claims of the document, one file per section. Each check computes one number and bounds it."""
