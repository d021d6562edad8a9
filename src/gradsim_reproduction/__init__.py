"""The paper's tables and figures, and experiments of ours: `gradsim reproduce NAME`."""
