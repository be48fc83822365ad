"""Running an application under the interposer, and reading what it wrote."""
