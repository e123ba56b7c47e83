"""What the engines must show, one module per engine: simulated, judged and drawn."""
