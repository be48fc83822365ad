"""`replay minimise`: the smallest snapshot that still shows a symptom. docs/minimise.md"""
