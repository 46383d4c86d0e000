"""The schema of the pipeline config: `*.proto` and the modules generated from them."""
