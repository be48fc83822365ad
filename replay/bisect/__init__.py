"""Since when: the first of several candidates that shows a symptom."""
