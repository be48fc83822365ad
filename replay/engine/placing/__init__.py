"""Where captured memory and devices live during a replay, and the addresses that stand for captured ones."""
