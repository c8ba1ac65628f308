"""What crosses the wire between an engine and its control plane: types and names, no behaviour."""

CONTRACT_VERSION = "1.1"
