"""Reference of scene files, generated from their models: a JSON schema for editors and the page docs/reference/scenes.md."""
